"""A client's session, shared by all that it returns: one channel, its stubs, and how long to wait."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, Protocol, TypeVar

import grpc

from selat.errors import Unavailable
from selat.transport.channel import open_channel, translated
from selat.transport.retry import Reconnect
from selat.transport.token import with_token
from selat.v1 import (
    access_pb2_grpc,
    adaptation_pb2_grpc,
    catalog_pb2_grpc,
    event_pb2_grpc,
    handover_pb2_grpc,
    lease_pb2_grpc,
    query_pb2_grpc,
    site_pb2_grpc,
    wan_pb2_grpc,
)
from wire.names import MASTER
from wire.security import PLAIN, Security

CLOSE_LIMIT = timedelta(seconds=2)
"""How long `Session.close` waits for gRPC."""

M = TypeVar("M")
M_co = TypeVar("M_co", covariant=True)
Q_contra = TypeVar("Q_contra", contravariant=True)


class Unary(Protocol[Q_contra, M_co]):
    """A generated method that takes one message and returns one."""

    def __call__(self, request: Q_contra, timeout: float | None = None) -> M_co: ...


class Call(Protocol[M_co]):
    """A running server stream."""

    def __iter__(self) -> Iterator[M_co]: ...

    def cancel(self) -> object: ...


@dataclass(frozen=True, slots=True)
class Waits:
    """How long a client waits."""

    call: timedelta
    """How long to wait for one answer."""
    reconnect: timedelta
    """How long to wait for a master that went away while results or states are followed."""


class Session:
    """One channel to one master."""

    def __init__(self, address: str, waits: Waits, security: Security = PLAIN, token: str = "") -> None:
        """`token` is shown to the master with every call; empty: none."""
        self.address = address
        self.waits = waits
        self.security = security
        self._channel: grpc.Channel = with_token(open_channel(address, MASTER, security), token)
        self.access = access_pb2_grpc.AccessServiceStub(self._channel)
        self.queries = query_pb2_grpc.QueryServiceStub(self._channel)
        self.catalog = catalog_pb2_grpc.CatalogServiceStub(self._channel)
        self.sites = site_pb2_grpc.SiteServiceStub(self._channel)
        self.leases = lease_pb2_grpc.LeaseServiceStub(self._channel)
        self.wan = wan_pb2_grpc.WanServiceStub(self._channel)
        self.adaptation = adaptation_pb2_grpc.AdaptationServiceStub(self._channel)
        self.handovers = handover_pb2_grpc.HandoverServiceStub(self._channel)
        self.events = event_pb2_grpc.EventServiceStub(self._channel)

    def ask(self, method: Unary[Q_contra, M], request: Q_contra, *, wait: timedelta | None = None) -> M:
        """One call, its failures translated. `wait` is for calls that take longer than others."""
        with translated(self.address):
            return method(request, timeout=(wait or self.waits.call).total_seconds())

    def close(self) -> None:
        """Closes the channel; returns after CLOSE_LIMIT even when gRPC still waits.

        gRPC waits for the end of every call. One that a signal interrupted while it was being started never ends.
        """
        closing = threading.Thread(target=self._channel.close, name="close-channel", daemon=True)
        closing.start()
        closing.join(CLOSE_LIMIT.total_seconds())


class Following(Generic[M]):
    """The messages of a server stream, across losses of the connection.

    `open_call` is called for every attempt, so that it can ask from where the last one stopped; a call that ends in
    order although `complete` says no counts as lost.
    """

    def __init__(
        self, open_call: Callable[[], Call[M]], complete: Callable[[], bool], *, address: str, retry: Reconnect
    ) -> None:
        self._open_call = open_call
        self._complete = complete
        self._address = address
        self._retry = retry
        self._call: Call[M] | None = None
        self._closed = False

    def messages(self) -> Iterator[M]:
        """Every message; raises ConnectionLost when the master stays away too long."""
        while not self._closed:
            try:
                yield from self._attempt()
            except Unavailable as error:
                lost = error
            else:
                if self._complete():
                    return
                lost = Unavailable(f"the master at {self._address} ended the call early")
            if not self._closed:
                self._retry.failed(lost)

    def _attempt(self) -> Iterator[M]:
        with translated(self._address):
            self._call = self._open_call()
            try:
                # `close` from another thread found no call to cancel if it came while this one was opened.
                if self._closed:
                    return
                for message in self._call:
                    self._retry.answered()
                    yield message
            finally:
                self._call.cancel()

    def close(self) -> None:
        """Ends the stream; may be called from any thread."""
        self._closed = True
        if self._call is not None:
            self._call.cancel()
