"""What every room of the master needs: errors and how gRPC tells them, clocks, log lines, fault points.

It knows no record and no other room.
"""
