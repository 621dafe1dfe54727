from __future__ import annotations

from itertools import islice
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from benchmarks import epoch_cost
from benchmarks.epoch_cost import CHANNELS, MERGE, MERGE_SQL, STREAMING, Cost, merge_task
from tests.unit.site_agent.fakes import TableEngine


def merged(rows: pa.Table) -> pa.Table:
    grouped = rows.group_by(["window_start", "k"]).aggregate([("n", "sum"), ("s", "sum")])
    return grouped.rename_columns(["window_start", "k", "n", "s"])


def test_every_epoch_of_the_merge_task_closes_one_window_and_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def make_engine(session: SparkSession | None, scratch: Path) -> TableEngine:
        return TableEngine({MERGE_SQL: merged})

    monkeypatch.setattr(epoch_cost, "SparkEngine", make_engine)
    epochs = merge_task(None, tmp_path / "data", rows=90)
    found = list(islice(epochs, 4))
    assert [pc.sum(epoch.output().column("n")).as_py() for epoch in found] == [90] * 4
    assert all(len(epoch.output().column("window_start").unique()) == 1 for epoch in found)
    assert all(epoch.fed_s > 0 for epoch in found)
    epochs.close()
    assert len(list((tmp_path / "data").glob("**/channel-*"))) == CHANNELS


def test_the_report_has_both_sides_with_least_and_most() -> None:
    costs = {STREAMING: [Cost(0.2, 0.3, 30, 5), Cost(0.4, 0.3, 30, 5)], MERGE: [Cost(0.1, 0.15, 30, 5)] * 2}
    text = "\n".join(epoch_cost._parts(costs, agree=True))
    assert "| Structured Streaming | 300 ms (200 ms to 400 ms) | 300 ms | 30 |" in text
    assert "median: 0.38 of the time, 0.50 of the CPU. Each epoch merged 5 rows." in text
