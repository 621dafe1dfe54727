"""The dataflow graph as typed values: operators with bound expressions, and the table of aggregates.

The graph knows nothing of SQL text, of sites or of running queries. `planner.text` writes SQL and EXPLAIN from it.
"""
