"""ExchangeService: this site's channels for other sites and the master."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from selat.v1 import exchange_pb2 as pb
from selat.v1.exchange_pb2_grpc import ExchangeServiceServicer
from site_agent.channels.store import ChannelStore
from site_agent.errors import ChannelRequestError, SiteAgentError
from site_agent.exchange.offload import Offload
from site_agent.exchange.sender import Sender
from site_agent.exchange.status import Context, abort

Analyze = Callable[[pb.AnalyzeRequest], Awaitable[pb.AnalyzeResponse]]


class ExchangeServicer(ExchangeServiceServicer):
    """Add it to a `grpc.aio` server that has `SERVER_OPTIONS`."""

    def __init__(self, store: ChannelStore, analyze: Analyze) -> None:
        self._store = store
        self._analyze = analyze
        self._offload = Offload("selat-exchange")

    async def Pull(  # noqa: N802
        self, request_iterator: AsyncIterator[pb.PullRequest], context: Context
    ) -> AsyncIterator[pb.PullResponse]:
        try:
            opening = await _opening(request_iterator)
            sender = Sender(self._store.get(opening.channel), opening, self._offload)
            async for response in sender.responses(request_iterator):
                yield response
        except SiteAgentError as error:
            await abort(context, error)

    async def Analyze(self, request: pb.AnalyzeRequest, context: Context) -> pb.AnalyzeResponse:  # noqa: N802
        try:
            return await self._analyze(request)
        except SiteAgentError as error:
            await abort(context, error)

    def close(self) -> None:
        """After the server has stopped."""
        self._offload.close()


async def _opening(requests: AsyncIterator[pb.PullRequest]) -> pb.OpenChannel:
    async for request in requests:
        if request.WhichOneof("message") == "open":
            return request.open
        break
    raise ChannelRequestError("the first message of a call must open a channel")
