"""Batch queries: the framework `batch` that has slots for their tasks, which `queries.batch_tasks` lists.

scheduled  the same as the scheduler sees it; pure
view       what users see of it; pure
slots      the framework's leases and waiting lists
estimates  what tasks take, learned from those that have ended
turn       what is known and decided in one turn of the manager
placer     places the tasks that wait, and stores what they were given
manager    decides, again and again, which task runs where
splits     asks sites how tables can be cut
"""
