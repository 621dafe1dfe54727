"""Queries as records: their registry, life cycle, progress, and what they share. The room places nothing and calls no
site.

The room places nothing and talks to no site.
"""
