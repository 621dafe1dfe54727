"""NEXMark's texts over streams of three sites; results equal DuckDB's over all rows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

import selat
from benchmarks.nexmark import queries
from benchmarks.nexmark.answers import SINK, declare, load, submit, wrong
from tests.e2e.faults import Scene

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(600)]

TEXTS = queries()
ROWS = {"person": 120, "auction": 360, "bid": 5520}


@dataclass(frozen=True, slots=True)
class Submitted:
    db: duckdb.DuckDBPyConnection
    running: Mapping[str, selat.Query]
    log: Path


@pytest.fixture(scope="module")
def submitted(calm: Scene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Submitted]:
    log = tmp_path_factory.mktemp("nexmark") / "log"
    with selat.connect(calm.cluster.address) as client:
        declare(client, log)
        running = {name: submit(client, text.sql) for name, text in TEXTS.items()}
        yield Submitted(load(client), running, log)
        for query in running.values():
            query.wait()
        list(client.script(f"DROP SINK {SINK}; DROP TABLE side_input"))
        list(client.script("; ".join(f"DROP STREAM {name}" for name in [*ROWS, "bid_by_arrival"])))


def test_the_oracle_has_each_row_once(submitted: Submitted) -> None:
    for stream, rows in ROWS.items():
        each = f"count(*), count(DISTINCT dateTime), count(DISTINCT {stream})"
        found = submitted.db.execute(f"SELECT {each} FROM {stream}").fetchone()
        assert found == (3 * rows, rows, 3 * rows)


@pytest.mark.parametrize("name", TEXTS)
def test_a_text(submitted: Submitted, name: str) -> None:
    assert wrong(TEXTS[name], submitted.running[name], submitted.db, submitted.log) is None
