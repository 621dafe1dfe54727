"""Asks a site's Spark about a client's plan, or has it run one that reads no table."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from datetime import timedelta

import grpc.aio

from contract.client_plans import plan_to_proto
from contract.trailers import received_detail
from master.base.errors import NoSiteAvailableError, PlanFailedError
from master.convert.functions import function_to_proto
from master.sites.peers import Peers
from master.sites.status import Sites
from planner.graph.clientplan import ClientPlan
from planner.relations.catalog import Column, Function
from planner.values.errors import InvalidExpressionError
from selat.v1 import common_pb2, exchange_pb2, exchange_pb2_grpc


class Sparks:
    """The Sparks of the sites that are there."""

    def __init__(self, sites: Sites, peers: Peers, *, gateway: str, timeout: timedelta) -> None:
        self._sites = sites
        self._peers = peers
        self._gateway = gateway
        self._timeout_s = timeout.total_seconds()

    def check_site(self, site: str) -> None:
        """Raises NoSiteAvailableError unless the site that a session names is there, UnknownSiteError for no site."""
        if not site:
            return
        if self._sites.get(site).name not in self._sites.alive():
            raise NoSiteAvailableError(
                f"site {site}, where this session's plans run, is away",
                hint=f"wait until it is back (SHOW SITES tells), or make a session without ;site={site}",
                ids={"site": site},
            )

    async def ask(
        self,
        tables: Mapping[str, Sequence[Column]],
        plan: ClientPlan,
        question: bytes,
        functions: Sequence[Function] = (),
    ) -> bytes:
        """The answer to a serialized `AnalyzePlanRequest`, over tables without rows.

        Raises:
            InvalidExpressionError: Spark refuses the plan.
            NoSiteAvailableError: no site can be asked.
        """
        request = exchange_pb2.AskPlanRequest(
            plan=plan_to_proto(plan),
            tables=[
                exchange_pb2.AnalyzeView(
                    name=name, columns=[common_pb2.Column(name=c.name, type=c.type) for c in columns]
                )
                for name, columns in tables.items()
            ],
            question=question,
            functions=map(function_to_proto, functions),
        )
        try:
            response = await self._stub(plan.site).AskPlan(request, timeout=self._timeout_s)
        except grpc.aio.AioRpcError as error:
            raise _failed(error) from error
        if response.HasField("error"):
            raise refused(response.error)
        return bytes(response.answer)

    async def run(self, plan: ClientPlan) -> AsyncGenerator[exchange_pb2.RunPlanResponse, None]:
        """The rows of a plan that reads no table, at least one message.

        Raises:
            InvalidExpressionError: Spark refuses the plan.
            PlanFailedError: Spark failed.
            NoSiteAvailableError: no site can be asked.
        """
        call = self._stub(plan.site).RunPlan(exchange_pb2.RunPlanRequest(plan=plan_to_proto(plan)))
        try:
            async for response in call:
                if response.HasField("error"):
                    told = response.error
                    raise refused(told) if told.code else PlanFailedError(told.message, hint=told.hint)
                yield response
        except grpc.aio.AioRpcError as error:
            raise _failed(error) from error
        finally:
            call.cancel()

    def _stub(self, site: str) -> exchange_pb2_grpc.ExchangeServiceAsyncStub:
        self.check_site(site)
        alive = sorted(self._sites.alive(), key=lambda name: (name != (site or self._gateway), name))
        for name in alive:
            address = self._sites.get(name).address
            if address:
                # One class serves both kinds of channels, which its stubs tell apart.
                stub: exchange_pb2_grpc.ExchangeServiceAsyncStub = exchange_pb2_grpc.ExchangeServiceStub(
                    self._peers.channel(name, address)
                )
                return stub
        raise NoSiteAvailableError(
            "no site is connected to run the plan", hint="start an agent; SHOW SITES tells who is there"
        )


def refused(told: common_pb2.ErrorDetail) -> InvalidExpressionError:
    """Spark's refusal, with the condition under which Spark lists it."""
    return InvalidExpressionError(told.message, found=told.found, ids={"condition": told.code} if told.code else {})


def _failed(error: grpc.aio.AioRpcError) -> PlanFailedError | NoSiteAvailableError:
    told = received_detail(error)
    if told is not None:
        return PlanFailedError(told.message, hint=told.hint)
    return NoSiteAvailableError(
        f"the site that runs the plan does not answer: {error.code().name}",
        hint="run it again; SHOW SITES tells who is there",
    )
