"""`files`: CSV, JSON lines and Parquet at a site, as a stream that follows a directory, as a replay, or as a table."""
