"""The lease manager: makes the decisions of `planner.leases` durable, and notifies those who watch or wait.

    request --manager--> decision --store--> durable --> answer, feed (watchers), tickets (waiters)

Requests that come while the disk is busy are decided together and stored in one transaction.
"""
