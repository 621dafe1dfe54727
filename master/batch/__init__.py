"""Batch queries: the framework `batch` that has slots for their tasks, which `queries.batch_tasks` lists.

scheduled  the same as the scheduler sees it; pure
view       what users see of it; pure
slots      the framework's leases and waiting lists
manager    decides, again and again, which task runs where
splits     asks sites how tables can be cut
"""
