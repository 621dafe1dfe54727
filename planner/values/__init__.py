"""Values that every room uses and that use none: names, quantities, errors, sites, links, kinds of stages, parts of
tables.

Nothing here knows queries, SQL or Spark.
"""
