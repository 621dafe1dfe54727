from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import grpc.aio
import pytest

from planner.values.scans import TableScan
from selat.v1 import common_pb2, exchange_pb2
from selat.v1.exchange_pb2_grpc import ExchangeServiceStub
from site_agent.base.errors import SiteAgentError
from site_agent.channels.store import ChannelStore
from site_agent.connectors.registry import make_connectors
from site_agent.engine import AnalysisError, Field, PythonFunction, ScannedStatement
from site_agent.host import Guests, analysis, start_exchange
from tests.unit.site_agent.connectors.preparers import LinesPreparer
from tests.unit.site_agent.fakes import TableEngine


class Analyst(TableEngine):
    def analyze(
        self, views: Mapping[str, Sequence[Field]], statement: str, functions: Sequence[PythonFunction] = ()
    ) -> tuple[Field, ...]:
        if statement == "bad":
            raise AnalysisError("no such function", condition="UNRESOLVED", line=2, column=5, fragment="nope(a)")
        return tuple(views["v"])

    def scans(
        self, tables: Mapping[str, Sequence[Field]], statement: str, functions: Sequence[PythonFunction] = ()
    ) -> ScannedStatement:
        return ScannedStatement(self.analyze(tables, statement, functions), (TableScan("v", ("a",)),))


def test_scans_are_told_when_they_are_asked_for() -> None:
    view = exchange_pb2.AnalyzeView(name="v", columns=[common_pb2.Column(name="a", type="INT")])
    request = exchange_pb2.AnalyzeRequest(views=[view], statements=["good", "bad"], scans=True)

    good, bad = analysis(Analyst({}), request).analyses

    assert [(c.name, c.type) for c in good.columns] == [("a", "INT")]
    assert [(scan.table, list(scan.columns)) for scan in good.scans.scans] == [("v", ["a"])]
    assert bad.HasField("error")
    (unasked,) = analysis(Analyst({}), exchange_pb2.AnalyzeRequest(views=[view], statements=["good"])).analyses
    assert not unasked.HasField("scans")


def test_each_statement_gets_its_columns_or_what_is_wrong() -> None:
    view = exchange_pb2.AnalyzeView(name="v", columns=[common_pb2.Column(name="a", type="INT")])
    request = exchange_pb2.AnalyzeRequest(views=[view], statements=["good", "bad"])

    good, bad = analysis(Analyst({}), request).analyses

    assert [(c.name, c.type) for c in good.columns] == [("a", "INT")]
    assert not good.HasField("error")
    assert (bad.error.code, bad.error.message, bad.error.found) == ("UNRESOLVED", "no such function", "nope(a)")
    assert (bad.error.line, bad.error.column) == (2, 5)


async def test_a_taken_port_is_said(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        store = ChannelStore(tmp_path)
        address = await start_exchange("127.0.0.1:0", store, Analyst({}), stack)

        with pytest.raises(SiteAgentError, match=address):
            await start_exchange(address, store, Analyst({}), stack)


async def test_splits_are_told_and_so_is_why_there_are_none(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}\n{}\n")
    options = {"connector": "files", "format": "json", "path": str(tmp_path / "a.json")}
    relation = common_pb2.Relation(name="t", bindings=[common_pb2.Binding(site="us", options=options)])
    async with AsyncExitStack() as stack:
        guests = Guests("us", connectors=make_connectors(LinesPreparer()))
        store = ChannelStore(tmp_path / "channels")
        address = await start_exchange("127.0.0.1:0", store, Analyst({}), stack, guests=guests)
        connection = await stack.enter_async_context(grpc.aio.insecure_channel(address))
        stub = ExchangeServiceStub(connection)

        found = await stub.ListSplits(exchange_pb2.ListSplitsRequest(relation=relation, split_bytes=3))
        assert [part.length for split in found.splits for part in split.parts] == [3, 3]

        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.ListSplits(exchange_pb2.ListSplitsRequest(relation=relation))
        assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert caught.value.details() == "splits of 0 bytes were asked for"
