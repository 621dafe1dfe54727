"""What every room of the master needs: errors and their gRPC statuses, clocks, log lines, fault points. It knows no
record.

It knows no record and no other room.
"""
