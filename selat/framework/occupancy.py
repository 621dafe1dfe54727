"""Work in a slot: the site's agent refuses older work in it, and says when the lease has expired."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from types import TracebackType
from typing import Self

from selat.convert.times import to_datetime
from selat.leases import Lease, slot_message
from selat.transport.channel import open_channel, translated
from selat.transport.session import Call
from selat.v1 import lease_pb2 as pb
from selat.v1 import lease_pb2_grpc
from wire import names
from wire.security import PLAIN, Security


class WorkState(Enum):
    """What the agent tells a worker about its slot."""

    ADMITTED = "admitted"
    """First: the work may begin. Older work in the slot has been told that it is over."""
    EXPIRED = "expired"
    """The lease has expired: checkpoint now, or have it renewed."""
    RENEWED = "renewed"
    """The lease was renewed in its grace period: go on."""
    OVER = "over"
    """The slot is another's from now on: end at once."""


@dataclass(frozen=True, slots=True)
class WorkEvent:
    """One message of the agent to a worker."""

    state: WorkState
    at: datetime | None = None
    """EXPIRED: when the slot is lost; RENEWED: when the lease expires next."""
    reason: str = ""
    """Why the slot is lost; only of OVER."""


class Occupancy(Iterator[WorkEvent]):
    """Events of one worker's slot, until it is over or this is closed; made by `Framework.occupy`.

    Reading raises StatementError (`STALE_FENCING`) when the lease is over before the work began, and Unavailable when
    the agent goes away. That ends no lease: the work may go on, and occupy the slot again under the same lease.
    """

    def __init__(self, address: str, lease: Lease, security: Security = PLAIN) -> None:
        self._address = address
        self._channel = open_channel(address, names.site(lease.slot.site), security)
        request = pb.OccupyRequest(slot=slot_message(lease.slot), fencing=lease.fencing)
        self._call: Call[pb.OccupyResponse] = lease_pb2_grpc.SlotServiceStub(self._channel).Occupy(request)
        self._messages = iter(self._call)

    def __next__(self) -> WorkEvent:
        with translated(self._address):
            message = next(self._messages)
        match message.WhichOneof("message"):
            case "expired":
                return WorkEvent(WorkState.EXPIRED, to_datetime(message.expired.grace_ends_at_us))
            case "renewed":
                return WorkEvent(WorkState.RENEWED, to_datetime(message.renewed.expires_at_us))
            case "over":
                return WorkEvent(WorkState.OVER, reason=message.over.reason)
            case _:
                return WorkEvent(WorkState.ADMITTED)

    def close(self) -> None:
        """Says that the work has ended; may be called from any thread. The lease is not released."""
        self._call.cancel()
        self._channel.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
