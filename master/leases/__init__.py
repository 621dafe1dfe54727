"""The lease manager: `planner.leases` made durable, and told to whoever watches or waits.

    request --manager--> decision --store--> durable --> answer, feed (watchers), tickets (waiters)

Requests that come while the disk is busy are decided together and stored in one transaction.
"""
