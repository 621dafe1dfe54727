"""The one place that makes channels.

A channel is to a member with a name, not only to an address: with TLS the other end must have that member's
certificate. The files of this member's own may change meanwhile. A call that begins then takes a new connection; those
that run stay on the old one, which gRPC closes once it has been idle for half an hour.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import grpc
import grpc.aio

from wire.names import MemberName
from wire.security import Security
from wire.transport import Options

if TYPE_CHECKING:
    from wire.files import Current, Material

ChannelT = TypeVar("ChannelT", grpc.Channel, grpc.aio.Channel)


def aio_channel(address: str, peer: MemberName, security: Security, options: Options = ()) -> grpc.aio.Channel:
    """A channel to the member that is expected at host:port."""
    identity = security.identity
    if identity is None:
        return security.transport.channel(address, options)

    def make(material: Material) -> grpc.aio.Channel:
        return grpc.aio.secure_channel(address, _credentials(material), options=_named(options, peer))

    return _AioChannel(_Renewed(make, identity.current))


def channel(address: str, peer: MemberName, security: Security, options: Options = ()) -> grpc.Channel:
    """A blocking channel to the member that is expected at host:port."""
    identity = security.identity
    if identity is None:
        return grpc.insecure_channel(address, options=tuple(options))

    def make(material: Material) -> grpc.Channel:
        return grpc.secure_channel(address, _credentials(material), options=_named(options, peer))

    return _SyncChannel(_Renewed(make, identity.current))


def _named(options: Options, peer: MemberName) -> tuple[tuple[str, Any], ...]:
    return (*options, ("grpc.ssl_target_name_override", peer.host))


def _credentials(material: Material) -> grpc.ChannelCredentials:
    return grpc.ssl_channel_credentials(material.roots, material.key, material.chain)


class _Renewed(Generic[ChannelT]):
    """The channel made with the newest certificate, and older ones that calls still use."""

    def __init__(self, make: Callable[[Material], ChannelT], current: Current) -> None:
        self._make: Callable[[Material], ChannelT] = make
        self._current = current
        self._lock = threading.Lock()
        self._material = current.material()
        self._made: list[ChannelT] = [make(self._material)]

    def now(self) -> ChannelT:
        """The channel for new calls."""
        material = self._current.material()
        if material is not self._material:
            with self._lock:
                if material is not self._material:
                    self._made.append(self._make(material))
                    self._material = material
        return self._made[-1]

    def all(self) -> Sequence[ChannelT]:
        return self._made


class _Method:
    """A method that calls through the channel that is newest at the time of the call."""

    def __init__(self, channels: _Renewed[Any], kind: str, *arguments: Any, **named: Any) -> None:
        self._channels = channels
        self._kind = kind
        self._arguments = arguments
        self._named = named
        self._bound: tuple[Any, Any] = (None, None)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self._newest()(*arguments, **named)

    def future(self, *arguments: Any, **named: Any) -> Any:
        return self._newest().future(*arguments, **named)

    def with_call(self, *arguments: Any, **named: Any) -> Any:
        return self._newest().with_call(*arguments, **named)

    def _newest(self) -> Any:
        channel, method = self._bound
        newest = self._channels.now()
        if newest is not channel:
            method = getattr(newest, self._kind)(*self._arguments, **self._named)
            self._bound = (newest, method)
        return method


class _AioChannel(grpc.aio.Channel):
    """See `grpc.aio.Channel`."""

    def __init__(self, channels: _Renewed[grpc.aio.Channel]) -> None:
        self._channels = channels

    async def __aenter__(self) -> _AioChannel:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close(None)

    async def close(self, grace: float | None = None) -> None:
        for made in self._channels.all():
            await made.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return self._channels.now().get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await self._channels.now().wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        await self._channels.now().channel_ready()

    def unary_unary(self, *arguments: Any, **named: Any) -> Any:
        return _Method(self._channels, "unary_unary", *arguments, **named)

    def unary_stream(self, *arguments: Any, **named: Any) -> Any:
        return _Method(self._channels, "unary_stream", *arguments, **named)

    def stream_unary(self, *arguments: Any, **named: Any) -> Any:
        return _Method(self._channels, "stream_unary", *arguments, **named)

    def stream_stream(self, *arguments: Any, **named: Any) -> Any:
        return _Method(self._channels, "stream_stream", *arguments, **named)


class _SyncChannel(grpc.Channel):
    """See `grpc.Channel`."""

    def __init__(self, channels: _Renewed[grpc.Channel]) -> None:
        self._channels = channels

    def __enter__(self) -> _SyncChannel:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        for made in self._channels.all():
            made.close()

    def subscribe(self, callback: Callable[[grpc.ChannelConnectivity], None], try_to_connect: bool = False) -> None:
        self._channels.now().subscribe(callback, try_to_connect)

    def unsubscribe(self, callback: Callable[[grpc.ChannelConnectivity], None]) -> None:
        for made in self._channels.all():
            made.unsubscribe(callback)

    def unary_unary(self, *arguments: Any, **named: Any) -> Any:
        return _Method(self._channels, "unary_unary", *arguments, **named)

    def unary_stream(self, *arguments: Any, **named: Any) -> Any:
        return _Method(self._channels, "unary_stream", *arguments, **named)

    def stream_unary(self, *arguments: Any, **named: Any) -> Any:
        return _Method(self._channels, "stream_unary", *arguments, **named)

    def stream_stream(self, *arguments: Any, **named: Any) -> Any:
        return _Method(self._channels, "stream_stream", *arguments, **named)
