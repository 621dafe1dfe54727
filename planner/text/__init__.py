"""Text from the graph: Spark SQL and EXPLAIN. Nothing reads it back."""
