"""Frozen records of queries, sites and tasks, their ids, the tables of their moves, and what sites are given.

Nothing is stored or sent here.
"""
