"""`parquet`: the sink that writes a directory of Parquet files, partitioned or not, one commit at a time."""
