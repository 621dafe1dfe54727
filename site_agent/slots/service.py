"""SlotService: workers of frameworks at this site."""

from __future__ import annotations

from collections.abc import AsyncIterator

from contract.trailers import Context
from selat.v1 import lease_pb2 as pb
from selat.v1.lease_pb2_grpc import SlotServiceServicer
from site_agent.base.errors import NoSpaceError, SiteAgentError
from site_agent.base.status import abort
from site_agent.slots.guard import SlotGuard, Work, WorkEvent, WorkState
from wire.callers import name_of
from wire.names import MemberName


class SlotServicer(SlotServiceServicer):
    """Add it to a `grpc.aio` server."""

    def __init__(self, guard: SlotGuard) -> None:
        self._guard = guard

    async def Occupy(  # noqa: N802
        self, request: pb.OccupyRequest, context: Context
    ) -> AsyncIterator[pb.OccupyResponse]:
        try:
            work = self._admit(request, name_of(context))
        except SiteAgentError as error:
            await abort(context, error)
        try:
            async for response in _responses(work):
                yield response
        finally:
            self._guard.leave(work)

    def _admit(self, request: pb.OccupyRequest, caller: MemberName | None) -> Work:
        slot, holder = request.slot, caller.name if caller is not None else None
        try:
            return self._guard.admit(slot.site, slot.index, request.fencing, holder=holder)
        except OSError as error:
            raise NoSpaceError(
                f"the slot's number cannot be stored: {error.strerror}", hint="look at the disk of the site's agent"
            ) from error


async def _responses(work: Work) -> AsyncIterator[pb.OccupyResponse]:
    """Events of the work, until it is over."""
    begun = False
    while True:
        event = await work.events.get()
        yield _response(event, begun=begun)
        begun = True
        if event.state is WorkState.OVER:
            return


def _response(event: WorkEvent, *, begun: bool) -> pb.OccupyResponse:
    lease = event.lease
    match event.state:
        case WorkState.OVER:
            return pb.OccupyResponse(over=pb.OccupyOver(reason=event.reason))
        case WorkState.EXPIRED:
            ends_at_us = lease.grace_ends_at_us if lease is not None else 0
            return pb.OccupyResponse(expired=pb.OccupyExpired(grace_ends_at_us=ends_at_us))
        case WorkState.ADMITTED if begun:
            expires_at_us = lease.expires_at_us if lease is not None else 0
            return pb.OccupyResponse(renewed=pb.OccupyRenewed(expires_at_us=expires_at_us))
        case _:
            return pb.OccupyResponse(admitted=pb.OccupyAdmitted())
