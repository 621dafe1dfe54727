"""The Spark session of an agent process: one JVM, shared by its sites."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from site_agent.engine.java import find_java_home
from site_agent.errors import EngineError

DEFAULT_DRIVER_MEMORY = "1g"
SPARK_LOG = "spark.log"
"""File in the scratch directory with Spark's errors."""
JVM_OUTPUT = "jvm.out"
"""File in the scratch directory that takes what the JVM prints; one start's worth."""

# Epochs are many and small: what Spark keeps of finished jobs for a UI that is off would only fill the heap.
_KEEP_LITTLE = {
    "spark.ui.retainedJobs": "20",
    "spark.ui.retainedStages": "20",
    "spark.ui.retainedTasks": "200",
    "spark.ui.retainedDeadExecutors": "2",
    "spark.sql.ui.retainedExecutions": "5",
}

_SETTINGS = {
    "spark.app.name": "selat",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
    "spark.cleaner.periodicGC.interval": "10min",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.pyspark.jvmStacktrace.enabled": "false",
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}

# A failing epoch is reported to its task; here it leaves a line or two, in a file that cannot fill the disk.
_LOG4J = """rootLogger.level = error
rootLogger.appenderRef.file.ref = file
appender.file.type = RollingFile
appender.file.name = file
appender.file.fileName = {log}
appender.file.filePattern = {log}.%i
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{yyyy-MM-dd'T'HH:mm:ss} %p %c{1}: %m%n%ex{3}
appender.file.policies.type = Policies
appender.file.policies.size.type = SizeBasedTriggeringPolicy
appender.file.policies.size.size = 8MB
appender.file.strategy.type = DefaultRolloverStrategy
appender.file.strategy.max = 2
"""


def start_spark(
    *,
    slots: int,
    scratch: Path,
    master_url: str | None = None,
    driver_memory: str = DEFAULT_DRIVER_MEMORY,
    java_options: str = "",
) -> SparkSession:
    """Start the JVM, or return the session this process already has.

    Args:
        slots: Cores that Spark uses on this machine when `master_url` is not given.
        scratch: Directory for Spark's temporary files, its warehouse and the log of its JVM.
        master_url: A cluster to run on: `spark://...`, `k8s://...`, `yarn`.
        driver_memory: Heap of the JVM, as in `1g`.
        java_options: More options of the JVM; `-XX:TieredStopAtLevel=1` halves the CPU time of a short run, and makes a
            long one several times slower.

    Raises:
        SiteAgentError: there is no suitable Java.
        EngineError: Spark does not start.
    """
    scratch = scratch.absolute()
    scratch.mkdir(parents=True, exist_ok=True)
    _silence_python_logging()
    running = SparkContext._active_spark_context
    if running is None:
        java_home = find_java_home(os.environ, scratch)
        conf = _configuration(scratch, driver_memory, java_options)
        _place(conf, slots, master_url)
        with _environment(java_home, local=master_url is None), (scratch / JVM_OUTPUT).open("wb") as output:
            running = _start_context(conf, output.fileno(), scratch / JVM_OUTPUT)
    session: SparkSession = SparkSession(running)
    return session


def _start_context(conf: SparkConf, descriptor: int, output: Path) -> SparkContext:
    try:
        gateway = launch_gateway(conf, {"stdout": descriptor, "stderr": descriptor})
        return SparkContext(conf=conf, gateway=gateway)
    except (PySparkException, OSError) as error:
        raise EngineError(f"Spark did not start: {_said(output) or error}", hint=f"see {output}") from error


def _configuration(scratch: Path, driver_memory: str, java_options: str) -> SparkConf:
    log4j = scratch / "log4j2.properties"
    log4j.write_text(_LOG4J.replace("{log}", str(scratch / SPARK_LOG)))
    conf = SparkConf()
    conf.setAll(list({**_SETTINGS, **_KEEP_LITTLE}.items()))
    conf.set("spark.driver.memory", driver_memory)
    conf.set("spark.local.dir", str(scratch / "local"))
    conf.set("spark.sql.warehouse.dir", str(scratch / "warehouse"))
    conf.set("spark.pyspark.python", sys.executable)
    # Spark logs and analyses plans by recursion: the default thread stack overflows on long ones.
    conf.set(
        "spark.driver.extraJavaOptions",
        f'-Xss8m -Duser.timezone=UTC "-Djava.io.tmpdir={scratch}" '
        f"-Dlog4j2.configurationFile={log4j.as_uri()} {java_options}",
    )
    return conf


def _place(conf: SparkConf, slots: int, master_url: str | None) -> None:
    """Alone on this machine Spark uses loopback only; a cluster's executors must reach the driver by its own name."""
    conf.set("spark.master", master_url or f"local[{slots}]")
    if master_url is None:
        conf.set("spark.driver.host", "127.0.0.1")
        conf.set("spark.driver.bindAddress", "127.0.0.1")


@contextmanager
def _environment(java_home: Path, *, local: bool) -> Iterator[None]:
    """What Spark's launcher reads from the environment, set while it starts: its own Java and its own Spark."""
    wanted = {
        "JAVA_HOME": str(java_home),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": sys.executable,
    }
    if local:
        wanted["SPARK_LOCAL_IP"] = "127.0.0.1"
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _silence_python_logging() -> None:
    """PySpark writes a JSON line to stderr for each statement it refuses; the refusal reaches the user as an error."""
    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        logger = PySparkLogger.getLogger(name)
        logger.setLevel(logging.CRITICAL + 1)
        logger.propagate = False


def _said(output: Path) -> str:
    """The first two lines that the JVM printed and that are no warning."""
    lines = (line.strip() for line in output.read_text(errors="replace").splitlines())
    return ": ".join([line for line in lines if line and not line.startswith(("WARNING", "at "))][:2])
