"""Rows out of Spark: what is let into an epoch and counted, and how its output comes back as Arrow."""
