"""Fixtures that several suites share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.terminal import TerminalReporter
from hypothesis import settings
from pyspark.sql import SparkSession

from site_agent.engine.jvm.session import SparkOptions, start_spark
from site_agent.engine.spark import SparkEngine
from tests import seeds
from tests.jvm import SHORT_LIVED

# The time of an example depends more on the machine's other work than on our code. With a given seed the same examples
# come again without a database; without one, every run has the same examples.
settings.register_profile("selat", deadline=None, database=None, derandomize=seeds.GIVEN is None)
settings.load_profile("selat")

WHOLE_TIMEOUT_S = 600
"""A test of the whole may take so long: real processes are several times slower on a machine that has other work."""
SHARED = frozenset({"calm", "frail", "isolated"})
"""Fixtures of tests/e2e/: clusters that several files use."""


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config: pytest.Config) -> None:
    """Give hypothesis our seed, unless it was given one itself."""
    if seeds.GIVEN is not None and config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = seeds.GIVEN


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Groups of `--dist loadgroup`: tests of one shared cluster, tests of the WAN, and each other file by itself."""
    for item in items:
        directory = item.path.relative_to(Path(__file__).parent).parts[0]
        if directory in ("e2e", "wan"):
            fixtures = set(item.fixturenames) if isinstance(item, pytest.Function) else set()
            shared = SHARED & fixtures if directory == "e2e" else {directory}
            item.add_marker(pytest.mark.xdist_group(min(shared, default=item.path.stem)))
            if item.get_closest_marker("timeout") is None:
                item.add_marker(pytest.mark.timeout(WHOLE_TIMEOUT_S))


def pytest_report_header() -> str:
    return seeds.header()


def pytest_terminal_summary(terminalreporter: TerminalReporter) -> None:
    """Print the seed after failures, where a reader looks first."""
    if terminalreporter.stats.get("failed") and seeds.GIVEN is not None:
        terminalreporter.write_line(seeds.header())


@pytest.fixture(scope="session")
def spark_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """One Spark JVM for the whole test run."""
    session = start_spark(
        slots=2, scratch=tmp_path_factory.mktemp("spark"), options=SparkOptions(java_options=SHORT_LIVED)
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def spark_engine(spark_session: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> SparkEngine:
    return SparkEngine(spark_session, scratch=tmp_path_factory.mktemp("engine"))
