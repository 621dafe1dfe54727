"""How tests run their JVMs: many, each for a minute or two, on few cores."""

from __future__ import annotations

SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options of a JVM that ends before what its optimising compiler does would pay."""

AGENT_ARGUMENTS = ("--spark-conf", f"spark.driver.defaultJavaOptions={SHORT_LIVED}")
"""The same for agents in processes of their own; what the agent sets itself stays."""

ENVIRONMENT = {"JDK_JAVA_OPTIONS": SHORT_LIVED}
"""The same for commands that start agents."""
