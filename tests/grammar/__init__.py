"""Random queries over the end-to-end data set, each in Selat's SQL and in DuckDB's."""
