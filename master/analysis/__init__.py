"""Has a site's Spark check a statement, and remembers the answer. It knows no query."""
