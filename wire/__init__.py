"""Connections between members: who is at the other end, and that nobody else listens.

    Security ─┬─> channels: each channel is to one named member, with this member's certificate
              └─> servers:  one interceptor asks of every call who makes it, and whether the rules let it

The one place that makes gRPC channels and servers. Certificates are made by `authority`. docs/security.md says who
may do what, decision 0033 why it is so.
"""
