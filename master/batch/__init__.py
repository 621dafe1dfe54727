"""Batch queries: their tasks, and the framework `batch` that has slots for them.

tasks      what sites are to run of a query, from the plan and what became of its tasks; pure
scheduled  the same as the scheduler sees it; pure
view       what users see of it; pure
slots      the framework's leases and waiting lists
manager    decides, again and again, which task runs where
splits     asks sites how tables can be cut
"""
