"""The exchange server of one site: its port, its services, its end."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import grpc.aio

from selat.v1 import common_pb2, exchange_pb2, exchange_pb2_grpc
from site_agent.channels.store import ChannelStore
from site_agent.convert import columns_to_proto, fields_from_proto
from site_agent.engine import AnalysisError, Engine
from site_agent.errors import SiteAgentError
from site_agent.exchange.options import SERVER_OPTIONS
from site_agent.exchange.server import ExchangeServicer

STOP_GRACE_S = 1.0


async def start_exchange(listen: str, store: ChannelStore, engine: Engine, stack: AsyncExitStack) -> str:
    """Serve until the stack unwinds.

    Returns:
        host:port as others reach it.

    Raises:
        SiteAgentError: the port is taken.
    """

    async def analyze(request: exchange_pb2.AnalyzeRequest) -> exchange_pb2.AnalyzeResponse:
        return await asyncio.to_thread(analysis, engine, request)

    server = grpc.aio.server(options=SERVER_OPTIONS)
    servicer = ExchangeServicer(store, analyze)
    exchange_pb2_grpc.add_ExchangeServiceServicer_to_server(servicer, server)
    try:
        port = server.add_insecure_port(listen)
    except RuntimeError as error:
        raise SiteAgentError(f"cannot listen on {listen}", hint="is the port taken? port 0 takes a free one") from error
    await server.start()
    stack.callback(servicer.close)
    stack.push_async_callback(server.stop, STOP_GRACE_S)
    return f"{listen.rpartition(':')[0]}:{port}"


def analysis(engine: Engine, request: exchange_pb2.AnalyzeRequest) -> exchange_pb2.AnalyzeResponse:
    """Each statement's columns, or what Spark says against it."""
    views = {view.name: fields_from_proto(view.columns) for view in request.views}
    analyses = []
    for statement in request.statements:
        try:
            columns = engine.analyze(views, statement)
            analyses.append(exchange_pb2.Analysis(columns=columns_to_proto(columns)))
        except AnalysisError as error:
            analyses.append(exchange_pb2.Analysis(error=_detail(error)))
    return exchange_pb2.AnalyzeResponse(analyses=analyses)


def _detail(error: AnalysisError) -> common_pb2.ErrorDetail:
    return common_pb2.ErrorDetail(
        code=error.condition, message=error.message, line=error.line, column=error.column, found=error.fragment
    )
