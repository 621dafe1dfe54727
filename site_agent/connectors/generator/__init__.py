"""`generator`: rows made from a seed, the same for the same row numbers. Values are Spark SQL over the row number."""
