"""Has a site's Spark check statements, and caches its answers. The room knows no query."""
