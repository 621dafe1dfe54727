"""How tests run their JVMs: many, each for a minute or two, on few cores."""

from __future__ import annotations

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
"""Options of a JVM that ends before what its optimising compiler does would pay.

With one compiler the JVM reserves a fifth of the usual room for code, which the queries of one cluster can fill: the
error then ends a thread of Spark's, and whoever waits for it waits for ever. So the usual room is asked for.
"""

AGENT_ARGUMENTS = ("--spark-conf", f"spark.driver.defaultJavaOptions={SHORT_LIVED}")
"""The same for agents in processes of their own; what the agent sets itself stays."""

ENVIRONMENT = {"JDK_JAVA_OPTIONS": SHORT_LIVED}
"""The same for commands that start agents."""
