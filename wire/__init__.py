"""Connections between members: authenticated by certificates, encrypted, and checked call by call.

    Security ─┬─> channels: each channel is to one named member, with this member's certificate
              └─> servers:  one interceptor asks of every call who makes it, and whether the rules let it

The one place that makes gRPC channels and servers. Certificates are made by `authority`. docs/security.md says who
may do what, decision 0033 why it is so.
"""
