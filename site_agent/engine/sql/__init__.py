"""SQL text on its way to Spark: what a text may contain, and how types are named."""
