"""What every room of the site agent needs: errors and how gRPC tells them, durable files, options, fault points.

It knows no channel, no task and no other room.
"""
