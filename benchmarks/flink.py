"""Flink from the package index: its libraries in a JVM of their own, driven by SQL.

The extra `[bench]` has only Flink's jars (`apache-flink-libraries`): PyFlink itself wants another py4j than PySpark.
What Flink runs is SQL, so nothing of it passes through Python.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

MISSING = "Flink is not installed: `pip install --require-hashes -r requirements-bench.lock`"
_OPENED = ("java.lang", "java.lang.reflect", "java.net", "java.io", "java.nio", "sun.nio.ch", "java.text", "java.time")
_OPENED_UTIL = ("java.util", "java.util.concurrent", "java.util.concurrent.atomic", "java.util.concurrent.locks")


def find_flink() -> Path | None:
    """The directory of Flink's jars; None when it is not installed."""
    found = find_spec("pyflink")
    places = list(found.submodule_search_locations or ()) if found else []
    jars = Path(places[0]) / "lib" if places else None
    return jars if jars is not None and jars.is_dir() else None


class Flink:
    """A table environment; its jobs run in a cluster within its JVM."""

    def __init__(self, environment: Any) -> None:
        self._environment = environment

    def do(self, statement: str) -> Any:
        """Execute a statement. Returns Flink's `TableResult`; an INSERT goes on in the background."""
        return self._environment.executeSql(statement)

    def set(self, key: str, value: str) -> None:
        """Change a setting for the statements to come."""
        self._environment.getConfig().set(key, value)

    def finish(self, statement: str) -> None:
        """Execute an INSERT to its end."""
        getattr(self.do(statement), "await")()


@contextmanager
def running_flink(jars: Path, root: Path, heap: str, settings: Mapping[str, str]) -> Iterator[Flink]:
    """Start a JVM with Flink; it ends with the context. `root` takes what it prints."""
    root.mkdir(parents=True, exist_ok=True)
    opened = [f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in (*_OPENED, *_OPENED_UTIL)]
    with (root / "jvm.out").open("w") as output:
        port, token = launch_gateway(
            classpath=str(jars / "*"),
            javaopts=[f"-Xmx{heap}", *opened],
            die_on_exit=True,
            enable_auth=True,
            redirect_stdout=output,
            redirect_stderr=output,
        )
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port, auth_token=token))
        try:
            flink = gateway.jvm.org.apache.flink
            configuration = flink.configuration.Configuration()
            for key, value in settings.items():
                configuration.setString(key, value)
            chosen = flink.table.api.EnvironmentSettings.newInstance().withConfiguration(configuration).build()
            yield Flink(flink.table.api.TableEnvironment.create(chosen))
        finally:
            gateway.shutdown()
            gateway.java_process.kill() if gateway.java_process else None
