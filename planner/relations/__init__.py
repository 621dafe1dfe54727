"""Streams, tables, sinks, views and functions as they are declared, and the options of their connectors.

Nothing here knows how a statement declares them (`planner.sql`) nor what runs over them.
"""
