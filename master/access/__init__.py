"""Who calls, and whether it may: tokens, the interceptor that asks `planner.access`, grants, the audit log.

call --interceptor--> token -> Principal --> limits --> table of rights --> the service, which knows its
caller by `caller()` --> one record in the audit log
"""
