"""The master's calls about plans of clients."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.ipc as ipc
import pytest

from planner.graph.clientplan import ClientPlan
from selat.v1 import common_pb2, exchange_pb2
from site_agent.agent.client_plans import BATCH_ROWS, ClientPlansServicer
from site_agent.base.errors import EngineError
from site_agent.engine import AnalysisError, Field, PythonFunction, ScannedStatement


class FakePlans:
    """Gives a table, or raises."""

    def __init__(self, table: pa.Table | None = None, error: Exception | None = None) -> None:
        self._table = table
        self._error = error
        self.may_end = threading.Event()
        self.may_end.set()
        self.stopped: list[str] = []
        self.asked: list[tuple[Mapping[str, Sequence[Field]], ClientPlan, bytes]] = []

    def plan_scans(
        self, tables: Mapping[str, Sequence[Field]], plan: ClientPlan, functions: Sequence[PythonFunction] = ()
    ) -> ScannedStatement:
        return ScannedStatement((), ())

    def ask_plan(
        self,
        tables: Mapping[str, Sequence[Field]],
        plan: ClientPlan,
        question: bytes,
        functions: Sequence[PythonFunction] = (),
    ) -> bytes:
        self.asked.append((tables, plan, question))
        if self._error is not None:
            raise self._error
        return b"answer"

    def run_plan(self, plan: ClientPlan, job: str) -> pa.Table:
        self.may_end.wait()
        if self._error is not None:
            raise self._error
        return self._table

    def stop_plan(self, job: str) -> None:
        self.stopped.append(job)
        self.may_end.set()


REFUSED = AnalysisError("no", condition="A.B", line=0, column=0, fragment="x")
REQUEST = exchange_pb2.RunPlanRequest(plan=common_pb2.ClientPlan(relation="cGxhbg=="))


async def rows_of(engine: FakePlans) -> list[exchange_pb2.RunPlanResponse]:
    return [response async for response in ClientPlansServicer(engine).run(REQUEST)]


async def test_rows_come_in_parts() -> None:
    responses = await rows_of(FakePlans(pa.table({"a": range(BATCH_ROWS + 1)})))
    assert [response.rows for response in responses] == [BATCH_ROWS, 1]
    assert ipc.open_stream(responses[1].arrow_stream).read_all().to_pylist() == [{"a": BATCH_ROWS}]


async def test_no_rows_have_columns() -> None:
    (response,) = await rows_of(FakePlans(pa.table({"a": pa.array([], pa.int32())})))
    assert ipc.open_stream(response.arrow_stream).read_next_batch().schema.names == ["a"]


@pytest.mark.parametrize(("error", "code"), [(REFUSED, "A.B"), (EngineError("broken", hint="mend it"), "")])
async def test_errors_are_told(error: Exception, code: str) -> None:
    (response,) = await rows_of(FakePlans(error=error))
    assert (response.error.code, response.error.message) == (code, str(error))


async def test_a_call_that_ends_stops_its_job() -> None:
    engine = FakePlans(pa.table({"a": [1]}))
    engine.may_end.clear()
    call = asyncio.ensure_future(rows_of(engine))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert len(engine.stopped) == 1


async def test_questions() -> None:
    engine = FakePlans()
    tables = [exchange_pb2.AnalyzeView(name="t", columns=[common_pb2.Column(name="a", type="INT")])]
    request = exchange_pb2.AskPlanRequest(tables=tables, question=b"q", plan=common_pb2.ClientPlan(settings={"s": "1"}))
    assert (await ClientPlansServicer(engine).ask(request)).answer == b"answer"
    assert engine.asked == [({"t": (Field("a", "INT"),)}, ClientPlan("", settings={"s": "1"}), b"q")]
    refused = await ClientPlansServicer(FakePlans(error=REFUSED)).ask(request)
    assert (refused.error.code, refused.error.found) == ("A.B", "x")
