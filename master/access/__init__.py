"""Access: authenticates callers by tokens and certificates, authorizes their calls, and writes the audit log.

call --interceptor--> token -> Principal --> limits --> table of rights --> the service, which knows its
caller by `caller()` --> one record in the audit log
"""
