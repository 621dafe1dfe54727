"""What every room of the site agent needs: errors and how gRPC tells them, clocks, durable files, fault points.

It knows no channel, no task and no other room.
"""
