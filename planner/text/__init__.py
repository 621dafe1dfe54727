"""Text from the graph: Spark SQL. The only room that writes it; nothing reads it back."""
