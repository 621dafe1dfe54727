"""The exchange server of one site: its port, its services, its shutdown."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from contract.client_plans import plan_from_proto
from contract.scans import scans_to_proto
from machine.description import describe
from selat.v1 import exchange_pb2, ingest_pb2_grpc, lease_pb2_grpc, member_pb2_grpc, wan_pb2_grpc
from site_agent.agent.client_plans import ClientPlansServicer, error_to_proto
from site_agent.agent.health import Health
from site_agent.agent.member import Describe, MemberServicer
from site_agent.agent.splits import list_splits
from site_agent.base.errors import SiteAgentError
from site_agent.channels.store import ChannelStore
from site_agent.connectors.sources import Connector
from site_agent.engine import AnalysisError, Engine, Field, PlanEngine, PythonFunction
from site_agent.engine.messages import columns_to_proto, fields_from_proto, functions_from_proto
from site_agent.exchange.options import connector
from site_agent.exchange.outbound import Outbound
from site_agent.exchange.server import ExchangeServicer, exchange_server
from site_agent.ingest.service import IngestServicer
from site_agent.ingest.streams import PushStreams
from site_agent.probes.service import ProbeServicer
from site_agent.slots.guard import SlotGuard
from site_agent.slots.service import SlotServicer
from wire.security import PLAIN, Security
from wire.servers import listen as listen_at

STOP_GRACE_S = 1.0


@dataclass(frozen=True, slots=True)
class Guests:
    """The further services at the address of a site's exchange."""

    site: str = ""
    streams: PushStreams | None = None
    """None: clients cannot push here."""
    slots: SlotGuard | None = None
    """None: no work of other frameworks is admitted here."""
    connectors: Mapping[str, Connector] = field(default_factory=dict)
    """Read the site's tables."""
    describe: Describe = describe
    """Describes the agent's process."""
    health: Health | None = None
    """Publishes whether the agent is ready; None: there is no such service."""
    security: Security = PLAIN
    """The security of all connections."""
    outbound: Outbound | None = None
    """Told of what leaves over the exchange."""
    plans: PlanEngine | None = None
    """Runs plans of Spark's own clients; None: they are refused."""


NO_GUESTS = Guests()


async def start_exchange(
    listen: str, store: ChannelStore, engine: Engine, stack: AsyncExitStack, *, guests: Guests = NO_GUESTS
) -> str:
    """Serve a site's channels and probes until the stack unwinds, and clients' pushes where there are streams.

    Returns:
        host:port as others reach it.

    Raises:
        SiteAgentError: the port is taken.
    """

    async def analyze(request: exchange_pb2.AnalyzeRequest) -> exchange_pb2.AnalyzeResponse:
        return await asyncio.to_thread(analysis, engine, request, guests.plans)

    async def splits(request: exchange_pb2.ListSplitsRequest) -> exchange_pb2.ListSplitsResponse:
        return await asyncio.to_thread(list_splits, guests.connectors, guests.site, request)

    server = exchange_server(guests.security)
    if guests.health is not None:
        guests.health.add_to(server)
        await guests.health.set(False)
    plans = ClientPlansServicer(guests.plans) if guests.plans is not None else None
    servicer = ExchangeServicer(store, analyze, splits, outbound=guests.outbound, plans=plans)
    servicer.add_to(server)
    probes = ProbeServicer(guests.site, listen.rpartition(":")[0].strip("[]"), connector(guests.security))
    wan_pb2_grpc.add_ProbeServiceServicer_to_server(probes, server)
    member_pb2_grpc.add_MemberServiceServicer_to_server(MemberServicer(guests.describe), server)
    if guests.streams is not None:
        ingest = IngestServicer(guests.streams)
        ingest_pb2_grpc.add_IngestServiceServicer_to_server(ingest, server)
        stack.callback(ingest.close)
    if guests.slots is not None:
        lease_pb2_grpc.add_SlotServiceServicer_to_server(SlotServicer(guests.slots), server)
    try:
        port = listen_at(server, listen, guests.security)
    except RuntimeError as error:
        raise SiteAgentError(f"cannot listen on {listen}", hint="is the port taken? port 0 takes a free one") from error
    await server.start()
    stack.push_async_callback(probes.close)
    stack.callback(servicer.close)
    stack.push_async_callback(server.stop, STOP_GRACE_S)
    return f"{listen.rpartition(':')[0]}:{port}"


def analysis(
    engine: Engine, request: exchange_pb2.AnalyzeRequest, plans: PlanEngine | None = None
) -> exchange_pb2.AnalyzeResponse:
    """The columns of each statement, or Spark's error."""
    views = {view.name: fields_from_proto(view.columns) for view in request.views}
    functions = functions_from_proto(request.functions)
    if request.load_functions:
        try:
            engine.load(functions)
        except AnalysisError as error:
            return exchange_pb2.AnalyzeResponse(analyses=[exchange_pb2.Analysis(error=error_to_proto(error))])
    analyses = []
    if request.HasField("plan"):
        return exchange_pb2.AnalyzeResponse(analyses=[_analysed_plan(plans, views, request)])
    for statement in request.statements:
        try:
            analyses.append(_analysed(engine, views, statement, functions, scans=request.scans))
        except AnalysisError as error:
            analyses.append(exchange_pb2.Analysis(error=error_to_proto(error)))
    return exchange_pb2.AnalyzeResponse(analyses=analyses)


def _analysed(
    engine: Engine,
    views: Mapping[str, Sequence[Field]],
    statement: str,
    functions: Sequence[PythonFunction],
    *,
    scans: bool,
) -> exchange_pb2.Analysis:
    if not scans:
        return exchange_pb2.Analysis(columns=columns_to_proto(engine.analyze(views, statement, functions)))
    found = engine.scans(views, statement, functions)
    return exchange_pb2.Analysis(columns=columns_to_proto(found.columns), scans=scans_to_proto(found.scans))


def _analysed_plan(
    plans: PlanEngine | None, tables: Mapping[str, Sequence[Field]], request: exchange_pb2.AnalyzeRequest
) -> exchange_pb2.Analysis:
    if plans is None:
        raise SiteAgentError("this site runs no plans of Spark's clients")
    try:
        found = plans.plan_scans(tables, plan_from_proto(request.plan), functions_from_proto(request.functions))
    except AnalysisError as error:
        return exchange_pb2.Analysis(error=error_to_proto(error))
    return exchange_pb2.Analysis(columns=columns_to_proto(found.columns), scans=scans_to_proto(found.scans))
