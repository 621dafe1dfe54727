"""Queries as records: their registry, life cycle, progress, what they share, and what sharing saves.

The room places nothing and talks to no site.
"""
