"""Which epochs warm an engine up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from threading import Event

import pyarrow as pa
import pytest

from site_agent.base.errors import EngineError
from site_agent.engine import EpochRequest, EpochResult, Field, PythonFunction, ScannedStatement
from site_agent.engine.warm import warm_up, warm_up_whole


class Recorder:
    """An engine that runs nothing."""

    def __init__(self, error: EngineError | None = None) -> None:
        self.ran: list[EpochRequest] = []
        self.analyzed = 0
        self.dropped: list[str] = []
        self._error = error

    def run(self, request: EpochRequest) -> EpochResult:
        self.ran.append(request)
        if self._error is not None:
            raise self._error
        return EpochResult(pa.table({}), 0, 0, None)

    def put_table(self, task_id: str, view: str, table: pa.Table | Sequence[Field]) -> None:
        raise AssertionError("no table is joined")

    def drop_task(self, task_id: str) -> None:
        self.dropped.append(task_id)

    def analyze(
        self, views: Mapping[str, Sequence[Field]], statement: str, functions: Sequence[PythonFunction] = ()
    ) -> tuple[Field, ...]:
        self.analyzed += 1
        return ()

    def scans(
        self, tables: Mapping[str, Sequence[Field]], statement: str, functions: Sequence[PythonFunction] = ()
    ) -> ScannedStatement:
        raise AssertionError("no table is scanned")

    def load(self, functions: Sequence[PythonFunction]) -> None:
        raise AssertionError("no function is used")


def test_every_kind_of_scan_is_run_and_nothing_is_kept() -> None:
    engine = Recorder()
    warm_up(engine)
    warm_up_whole(engine, Event())
    kinds = [type(request.scan).__name__ for request in engine.ran]
    assert kinds == ["ArrowScan", "RangeScan", "RangeScan", "FilesScan", "FilesScan", "ArrowScan"]
    assert engine.analyzed == 1
    assert set(engine.dropped) == {request.task_id for request in engine.ran}


def test_a_stop_is_heeded() -> None:
    engine, stop = Recorder(), Event()
    stop.set()
    warm_up_whole(engine, stop)
    assert (engine.ran, engine.analyzed) == ([], 0)


def test_a_spark_that_does_not_work_is_told() -> None:
    engine = Recorder(EngineError("no"))
    with pytest.raises(EngineError):
        warm_up(engine)
    assert len(engine.dropped) == 1
