"""Plans of Spark's own clients, as the master sends them: questions about them, and those that read no table."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator

import pyarrow as pa
import pyarrow.ipc as ipc

from contract.client_plans import plan_from_proto
from selat.v1 import common_pb2, exchange_pb2
from site_agent.base.errors import EngineError
from site_agent.engine import AnalysisError, PlanEngine
from site_agent.engine.messages import fields_from_proto, functions_from_proto

BATCH_ROWS = 10_000
"""Rows of a message; Spark's own server sends as many."""


_NUMBERS = itertools.count()
"""All sites of the process share these numbers, because they share a JVM."""


class ClientPlansServicer:
    """Answers the master's calls about plans of clients."""

    def __init__(self, engine: PlanEngine) -> None:
        self._engine = engine

    async def ask(self, request: exchange_pb2.AskPlanRequest) -> exchange_pb2.AskPlanResponse:
        """Spark's answer, or why it refuses the plan."""
        return await asyncio.to_thread(self._ask, request)

    def _ask(self, request: exchange_pb2.AskPlanRequest) -> exchange_pb2.AskPlanResponse:
        tables = {table.name: fields_from_proto(table.columns) for table in request.tables}
        functions = functions_from_proto(request.functions)
        try:
            answer = self._engine.ask_plan(tables, plan_from_proto(request.plan), request.question, functions)
        except AnalysisError as error:
            return exchange_pb2.AskPlanResponse(error=error_to_proto(error))
        return exchange_pb2.AskPlanResponse(answer=answer)

    async def run(self, request: exchange_pb2.RunPlanRequest) -> AsyncIterator[exchange_pb2.RunPlanResponse]:
        """The rows, in messages of a limited size; the job ends with the call."""
        job = f"plan-{next(_NUMBERS)}"
        running = asyncio.ensure_future(asyncio.to_thread(self._engine.run_plan, plan_from_proto(request.plan), job))
        try:
            table = await asyncio.shield(running)
        except AnalysisError as error:
            yield exchange_pb2.RunPlanResponse(error=error_to_proto(error))
            return
        except EngineError as error:
            yield exchange_pb2.RunPlanResponse(error=common_pb2.ErrorDetail(message=error.message, hint=error.hint))
            return
        except asyncio.CancelledError:
            await asyncio.to_thread(self._engine.stop_plan, job)
            raise
        for batch in table.to_batches(BATCH_ROWS) or [pa.RecordBatch.from_pylist([], schema=table.schema)]:
            yield exchange_pb2.RunPlanResponse(arrow_stream=_stream(batch), rows=batch.num_rows)


def error_to_proto(error: AnalysisError) -> common_pb2.ErrorDetail:
    """Spark's refusal as a message; its code is the condition under which Spark lists it."""
    return common_pb2.ErrorDetail(
        code=error.condition, message=error.message, line=error.line, column=error.column, found=error.fragment
    )


def _stream(batch: pa.RecordBatch) -> bytes:
    sink = pa.BufferOutputStream()
    with ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    return bytes(sink.getvalue())
