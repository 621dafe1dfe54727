"""Batch queries: their tasks, and the framework `batch` that has slots for them.

tasks     what sites are to run of a query, from the plan and what became of its tasks; pure
slots     the framework's leases and waiting lists
view      what users see of a query's tasks; pure
manager   decides, again and again, which task runs where
splits    asks sites how tables can be cut
"""
