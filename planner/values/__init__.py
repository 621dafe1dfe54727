"""What everybody needs and what knows nothing: names, quantities, places in a text, errors, sites and links.

Nothing here knows of queries, SQL or Spark.
"""
