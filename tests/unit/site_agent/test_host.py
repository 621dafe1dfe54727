from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from selat.v1 import common_pb2, exchange_pb2
from site_agent.channels.store import ChannelStore
from site_agent.engine import AnalysisError, Field, PythonFunction
from site_agent.errors import SiteAgentError
from site_agent.host import analysis, start_exchange
from tests.unit.site_agent.fakes import TableEngine


class Analyst(TableEngine):
    def analyze(
        self, views: Mapping[str, Sequence[Field]], statement: str, functions: Sequence[PythonFunction] = ()
    ) -> tuple[Field, ...]:
        if statement == "bad":
            raise AnalysisError("no such function", condition="UNRESOLVED", line=2, column=5, fragment="nope(a)")
        return tuple(views["v"])


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
