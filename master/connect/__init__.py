"""The endpoint for Spark's own clients: `spark.connect.SparkConnectService`, with sessions that live here.

    client --sc://--> service --sessions, operations--> plans (what a plan names) --planning--> a query of Selat
                         |                                                                         |
                         +-- questions, catalog, settings          responses <-- results <---------+

A session is names and settings, and nothing of it is at a site: what a plan needs goes with the plan. A plan that
reads tables becomes a query as any other, whose last task runs the client's own plan; one that reads none is run by
one site's Spark at once. The protocol's classes are PySpark's, which is loaded only where the endpoint is on.
"""
