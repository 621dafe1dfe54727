"""Has Spark check a statement at a site that is connected, without running it."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Protocol

import grpc.aio

from contract.client_plans import plan_to_proto
from contract.scans import scans_from_proto
from master.base.errors import NoSiteAvailableError
from master.base.logs import line
from master.convert.functions import function_to_proto
from master.sites.peers import Peers
from master.sites.status import Sites, SiteStatus
from planner.graph.clientplan import ClientPlan
from planner.graph.whole import Scanned
from planner.relations.catalog import Column, Function
from selat.v1 import common_pb2, exchange_pb2, exchange_pb2_grpc

logger = logging.getLogger(__name__)


class RefusedStatementError(Exception):
    """Spark refused the statement; line and column are in the statement's text, from 1 (0: unknown)."""

    def __init__(self, message: str, *, line: int, column: int, fragment: str, condition: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column
        self.fragment = fragment
        self.condition = condition


class Analyzer(Protocol):
    """Checks statements."""

    async def analyze(
        self,
        views: Mapping[str, Sequence[Column]],
        statement: str,
        functions: Sequence[Function] = (),
        *,
        load: bool = False,
    ) -> tuple[Column, ...]:
        """The output columns of the statement over empty views; with `load`, the functions' modules are loaded, too.

        Raises:
            RefusedStatementError: Spark refuses it.
            NoSiteAvailableError: nobody can check it now.
        """
        ...

    async def scans(
        self,
        tables: Mapping[str, Sequence[Column]],
        statement: str,
        functions: Sequence[Function] = (),
        *,
        client: ClientPlan | None = None,
    ) -> Scanned:
        """Return what scans of these tables must deliver for the statement, or a client's plan; raises as `analyze`."""
        ...


class SiteAnalyzer:
    """Asks the gateway's agent first, then the others that are alive."""

    def __init__(self, sites: Sites, peers: Peers, *, gateway: str, timeout: timedelta) -> None:
        self._sites = sites
        self._peers = peers
        self._gateway = gateway
        self._timeout_s = timeout.total_seconds()

    async def analyze(
        self,
        views: Mapping[str, Sequence[Column]],
        statement: str,
        functions: Sequence[Function] = (),
        *,
        load: bool = False,
    ) -> tuple[Column, ...]:
        """See Analyzer."""
        request = _request(views, statement, functions)
        request.load_functions = load
        return _columns(await self._asked(request))

    async def scans(
        self,
        tables: Mapping[str, Sequence[Column]],
        statement: str,
        functions: Sequence[Function] = (),
        *,
        client: ClientPlan | None = None,
    ) -> Scanned:
        """See Analyzer."""
        request = _request(tables, statement, functions)
        request.scans = True
        if client is not None:
            request.plan.CopyFrom(plan_to_proto(client))
        analysis = await self._asked(request)
        scans = scans_from_proto(analysis.scans) if analysis.HasField("scans") else None
        return Scanned(_columns(analysis), scans)

    async def _asked(self, request: exchange_pb2.AnalyzeRequest) -> exchange_pb2.Analysis:
        """What the first site says that can be asked."""
        for site in self._candidates():
            try:
                stub = exchange_pb2_grpc.ExchangeServiceStub(self._peers.channel(site.name, site.address))
                response = await stub.Analyze(request, timeout=self._timeout_s)
            except grpc.aio.AioRpcError as error:
                logger.warning(line("site cannot check a query", site=site.name, code=error.code().name))
                continue
            return response.analyses[0]
        raise NoSiteAvailableError(
            "no site is connected to check the query", hint="start an agent; SHOW SITES tells who is there"
        )

    def _candidates(self) -> list[SiteStatus]:
        alive = self._sites.alive()
        found = [s for s in self._sites.all() if s.name in alive]
        return sorted(found, key=lambda s: (s.name != self._gateway, s.name))


def _request(
    views: Mapping[str, Sequence[Column]], statement: str, functions: Sequence[Function]
) -> exchange_pb2.AnalyzeRequest:
    return exchange_pb2.AnalyzeRequest(
        views=[
            exchange_pb2.AnalyzeView(name=name, columns=[common_pb2.Column(name=c.name, type=c.type) for c in columns])
            for name, columns in views.items()
        ],
        statements=[statement],
        functions=map(function_to_proto, functions),
    )


def _columns(analysis: exchange_pb2.Analysis) -> tuple[Column, ...]:
    if analysis.HasField("error"):
        error = analysis.error
        raise RefusedStatementError(
            error.message, line=error.line, column=error.column, fragment=error.found, condition=error.code
        )
    return tuple(Column(c.name, c.type) for c in analysis.columns)
