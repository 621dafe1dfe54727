"""Frozen records of queries, sites and tasks, their ids, state machines, and assignments. Nothing is stored or sent
here.

Nothing is stored or sent here.
"""
