"""Fixtures that several suites share."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from site_agent.engine.session import SparkOptions, start_spark
from site_agent.engine.spark import SparkEngine
from tests.jvm import SHORT_LIVED

# How long an example takes says more about the machine's other work than about our code.
settings.register_profile("selat", deadline=None)
settings.load_profile("selat")


@pytest.fixture(scope="session")
def spark_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkEngine]:
    """One Spark JVM for the whole test run."""
    scratch: Path = tmp_path_factory.mktemp("spark")
    session = start_spark(slots=2, scratch=scratch, options=SparkOptions(java_options=SHORT_LIVED))
    yield SparkEngine(session, scratch=scratch / "engine")
    session.stop()
