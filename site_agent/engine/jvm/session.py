"""The Spark session of an agent process: one JVM, shared by its sites."""

from __future__ import annotations

import logging
import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pyspark
from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession

from site_agent.base.errors import EngineError
from site_agent.engine.cluster import tls as cluster_tls
from site_agent.engine.jvm.jar import JAR, find_jar
from site_agent.engine.jvm.java import find_java_home

logger = logging.getLogger(__name__)

CLASS_PATH = "spark.driver.extraClassPath"

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
    # Files that Spark writes are state of the agent, which is its owner's alone; sinks are not written by Spark.
    "spark.hadoop.fs.permissions.umask-mode": "077",
    "spark.sql.catalogImplementation": "in-memory",
    # Else ${env:NAME}, even within a string, becomes the value of a variable of the agent's environment.
    "spark.sql.variable.substitute": "false",
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


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """Where and how Spark runs."""

    master_url: str | None = None
    """A cluster to run on: `spark://...`, `k8s://...`, `yarn`, `local-cluster[...]`; absent: this process's own JVM."""
    driver_memory: str = DEFAULT_DRIVER_MEMORY
    """Heap of the driver's JVM."""
    java_options: str = ""
    """More options of that JVM.

    `-XX:TieredStopAtLevel=1` halves the CPU time of a short run, and makes a long one several times slower.
    """
    settings: Mapping[str, str] = field(default_factory=dict)
    """More of Spark's settings; they win over ours."""
    encrypted: bool = False
    """Whether connections to executors elsewhere are authenticated and encrypted."""
    secret: str = field(default="", repr=False)
    """What all processes of a standalone cluster know; with YARN and Kubernetes Spark makes one itself."""

    @property
    def executors_elsewhere(self) -> bool:
        """Whether executors are processes of their own, which need not see this machine's disk."""
        return self.master_url is not None and not re.match(r"local(\[|$)", self.master_url)

    @property
    def standalone(self) -> bool:
        """Whether the cluster is Spark's own, whose processes have to be told their secret."""
        return self.master_url is not None and self.master_url.startswith(("spark://", "local-cluster["))


def start_spark(*, slots: int, scratch: Path, options: SparkOptions | None = None) -> SparkSession:
    """Start the JVM, or return the session this process already has.

    Args:
        slots: Cores that Spark uses on this machine when the options name no master.
        scratch: Directory for Spark's temporary files, its warehouse and the log of its JVM.
        options: Where and how it runs.

    Raises:
        SiteAgentError: there is no suitable Java.
        EngineError: Spark does not start.
    """
    options = options or SparkOptions()
    scratch = scratch.absolute()
    _silence_python_logging()
    running = SparkContext._active_spark_context
    if running is None:
        clear_scratch(scratch)
        java_home = find_java_home(os.environ, scratch)
        conf = _configuration(scratch, slots, options)
        with _environment(java_home, loopback=_on_loopback(options)), (scratch / JVM_OUTPUT).open("wb") as output:
            running = _start_context(conf, options.secret, output.fileno(), scratch / JVM_OUTPUT)
    session: SparkSession = SparkSession(running)
    return session


def jvm_version(session: SparkSession) -> str:
    """Version of the session's JVM, as `17.0.9`."""
    jvm = session.sparkContext._jvm
    assert jvm is not None
    return str(jvm.java.lang.System.getProperty("java.version"))


def clear_scratch(directory: Path) -> None:
    """Make a scratch directory that holds no rows: a process that was killed left its own. Logs stay."""
    directory.mkdir(parents=True, exist_ok=True)
    for entry in directory.iterdir():
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)


def _start_context(conf: SparkConf, secret: str, descriptor: int, output: Path) -> SparkContext:
    try:
        gateway = launch_gateway(conf, {"stdout": descriptor, "stderr": descriptor})
        if secret:
            # Only now: what the gateway is launched with stands on its command line.
            conf.set(cluster_tls.SECRET, secret)
        return SparkContext(conf=conf, gateway=gateway)
    except Py4JJavaError as error:
        raise EngineError(f"Spark did not start: {error.java_exception.getMessage()}", hint=f"see {output}") from None
    except (PySparkException, OSError) as error:
        raise EngineError(f"Spark did not start: {_said(output) or error}", hint=f"see {output}") from error


def _configuration(scratch: Path, slots: int, options: SparkOptions) -> SparkConf:
    log4j = scratch / "log4j2.properties"
    log4j.write_text(_LOG4J.replace("{log}", str(scratch / SPARK_LOG)))
    conf = SparkConf()
    conf.setAll(list({**_SETTINGS, **_KEEP_LITTLE}.items()))
    conf.set("spark.driver.memory", options.driver_memory)
    conf.set("spark.local.dir", str(scratch / "local"))
    conf.set("spark.sql.warehouse.dir", str(scratch / "warehouse"))
    conf.set("spark.pyspark.python", sys.executable)
    # Spark logs and analyses plans by recursion: the default thread stack overflows on long ones.
    conf.set(
        "spark.driver.extraJavaOptions",
        f'-Xss8m -Duser.timezone=UTC "-Djava.io.tmpdir={scratch}" '
        f"-Dlog4j2.configurationFile={log4j.as_uri()} {options.java_options}",
    )
    conf.set("spark.executor.extraJavaOptions", "-Xss8m -Duser.timezone=UTC")
    conf.set("spark.master", options.master_url or f"local[{slots}]")
    if not options.executors_elsewhere:
        # Spark ends the process of an executor whose task overflowed its stack. Here that would be the agent.
        conf.set("spark.executor.killOnFatalError.depth", "0")
    if _on_loopback(options):
        conf.set("spark.driver.host", "127.0.0.1")
        conf.set("spark.driver.bindAddress", "127.0.0.1")
    settings = _with_jar(options.settings)
    conf.setAll(list(settings.items()))
    if options.encrypted:
        conf.setAll(list(cluster_tls.encrypting(scratch, settings).items()))
    return conf


def _with_jar(settings: Mapping[str, str]) -> Mapping[str, str]:
    """The settings, with the classes of kept plans on the driver's class path."""
    jar = find_jar()
    if jar is None:
        logger.warning(
            "each epoch is planned anew, which costs CPU: there is no %s for Spark %s", JAR, pyspark.__version__
        )
        return settings
    given = settings.get(CLASS_PATH)
    return {**settings, CLASS_PATH: f"{given}{os.pathsep}{jar}" if given else str(jar)}


def _on_loopback(options: SparkOptions) -> bool:
    """Alone on this machine Spark uses loopback only; a cluster's executors must reach the driver by its own name."""
    return options.master_url is None or options.master_url.startswith("local")


def driver_bind_address(options: SparkOptions) -> str:
    """The address at which the driver, and with it the file server for executors, listens."""
    settings = options.settings
    if _on_loopback(options):
        return settings.get("spark.driver.bindAddress", "127.0.0.1")
    return settings.get("spark.driver.bindAddress") or settings.get("spark.driver.host") or "0.0.0.0"


@contextmanager
def _environment(java_home: Path, *, loopback: bool) -> Iterator[None]:
    """What Spark's launcher reads from the environment, set while it starts: its own Java and its own Spark."""
    wanted = {
        "JAVA_HOME": str(java_home),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "PYSPARK_PYTHON": sys.executable,
    }
    if loopback:
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
