"""ExchangeService: this site's channels for other sites and the master."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol

import grpc
import grpc.aio
from google.protobuf.message import DecodeError

from contract.trailers import Context, refuse
from selat.v1 import exchange_pb2 as pb
from site_agent.base.errors import ChannelRequestError, ConnectorError, SiteAgentError
from site_agent.base.offload import Offload
from site_agent.base.status import abort
from site_agent.channels.store import ChannelStore
from site_agent.exchange.options import SERVER_OPTIONS
from site_agent.exchange.outbound import Outbound
from site_agent.exchange.sender import Sender
from site_agent.exchange.turns import Turns
from site_agent.exchange.unreadable import UnreadableInterceptor, unreadable
from site_agent.exchange.wire import SERVICE, Response, serialize
from wire.security import PLAIN, Security
from wire.servers import aio_server

logger = logging.getLogger(__name__)

UNKNOWN_WAIT_S = 1.0
"""How long a call waits for a channel that does not exist yet."""

Analyze = Callable[[pb.AnalyzeRequest], Awaitable[pb.AnalyzeResponse]]


class Plans(Protocol):
    """Answers calls about plans of Spark's own clients."""

    async def ask(self, request: pb.AskPlanRequest) -> pb.AskPlanResponse:
        """Spark's answer to a question about a plan."""
        ...

    def run(self, request: pb.RunPlanRequest) -> AsyncIterator[pb.RunPlanResponse]:
        """The rows of a plan that reads no table."""
        ...


ListSplits = Callable[[pb.ListSplitsRequest], Awaitable[pb.ListSplitsResponse]]


class ExchangeServicer:
    """Added to an `exchange_server` with `add_to`. Without `list_splits` the site has no tables."""

    def __init__(
        self,
        store: ChannelStore,
        analyze: Analyze,
        list_splits: ListSplits | None = None,
        *,
        outbound: Outbound | None = None,
        plans: Plans | None = None,
    ) -> None:
        self._store = store
        self._analyze = analyze
        self._list_splits = list_splits or _no_tables
        self._offload = Offload("selat-exchange")
        self._turns = Turns()
        self._outbound = outbound or Outbound()
        self._plans = plans

    async def Pull(  # noqa: N802
        self, request_iterator: AsyncIterator[pb.PullRequest], context: Context
    ) -> AsyncIterator[Response]:
        self._turns.accepted()
        try:
            opening = await _opening(request_iterator)
            # The reader may be deployed before the producer: it waits here instead of asking again and again.
            within_s = UNKNOWN_WAIT_S if opening.follow else 0.0
            log = await self._store.find(opening.channel, within_s=within_s)
            sender = Sender(log, opening, self._offload, self._turns, self._outbound)
            async for response in sender.responses(request_iterator):
                yield response
        except Exception as error:  # noqa: BLE001 - becomes a status, and is logged
            await abort(context, _told(error))

    async def Analyze(self, request: pb.AnalyzeRequest, context: Context) -> pb.AnalyzeResponse:  # noqa: N802
        try:
            return await self._analyze(request)
        except Exception as error:  # noqa: BLE001 - becomes a status, and is logged
            await abort(context, _told(error))

    async def ListSplits(self, request: pb.ListSplitsRequest, context: Context) -> pb.ListSplitsResponse:  # noqa: N802
        try:
            return await self._list_splits(request)
        except Exception as error:  # noqa: BLE001 - becomes a status, and is logged
            await abort(context, _told(error))

    async def AskPlan(self, request: pb.AskPlanRequest, context: Context) -> pb.AskPlanResponse:  # noqa: N802
        try:
            return await _served(self._plans).ask(request)
        except Exception as error:  # noqa: BLE001 - becomes a status, and is logged
            await abort(context, _told(error))

    async def RunPlan(  # noqa: N802
        self, request: pb.RunPlanRequest, context: Context
    ) -> AsyncIterator[pb.RunPlanResponse]:
        try:
            async for response in _served(self._plans).run(request):
                yield response
        except Exception as error:  # noqa: BLE001 - becomes a status, and is logged
            await abort(context, _told(error))

    def add_to(self, server: grpc.aio.Server) -> None:
        """Add the service to a server. The handlers that gRPC generates would have protobuf copy every payload."""
        handlers = {
            "Pull": grpc.stream_stream_rpc_method_handler(self.Pull, pb.PullRequest.FromString, serialize),
            "Analyze": grpc.unary_unary_rpc_method_handler(
                self.Analyze, pb.AnalyzeRequest.FromString, pb.AnalyzeResponse.SerializeToString
            ),
            "ListSplits": grpc.unary_unary_rpc_method_handler(
                self.ListSplits, pb.ListSplitsRequest.FromString, pb.ListSplitsResponse.SerializeToString
            ),
            "AskPlan": grpc.unary_unary_rpc_method_handler(
                self.AskPlan, pb.AskPlanRequest.FromString, pb.AskPlanResponse.SerializeToString
            ),
            "RunPlan": grpc.unary_stream_rpc_method_handler(
                self.RunPlan, pb.RunPlanRequest.FromString, pb.RunPlanResponse.SerializeToString
            ),
        }
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))

    def close(self) -> None:
        """Release resources after the server has stopped."""
        self._offload.close()


def exchange_server(security: Security = PLAIN) -> grpc.aio.Server:
    """A server for an `ExchangeServicer`."""
    return aio_server(security, refuse, options=SERVER_OPTIONS, interceptors=(UnreadableInterceptor(),))


async def _no_tables(request: pb.ListSplitsRequest) -> pb.ListSplitsResponse:
    raise ConnectorError(f"table {request.relation.name} cannot be read here", hint="this site has no connectors")


def _served(plans: Plans | None) -> Plans:
    """Raises SiteAgentError where there is nobody to answer."""
    if plans is None:
        raise SiteAgentError("this site runs no plans of Spark's clients")
    return plans


def _told(error: Exception) -> SiteAgentError:
    if isinstance(error, DecodeError):
        return unreadable(error)
    if isinstance(error, SiteAgentError):
        return error
    logger.error("call failed unexpectedly", exc_info=error)
    return SiteAgentError(f"the agent failed unexpectedly: {type(error).__name__}", hint="its log has the details")


async def _opening(requests: AsyncIterator[pb.PullRequest]) -> pb.OpenChannel:
    async for request in requests:
        if request.WhichOneof("message") == "open":
            return request.open
        break
    raise ChannelRequestError("the first message of a call must open a channel")
