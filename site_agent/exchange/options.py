"""Channels between sites, and the gRPC options that both ends of an exchange need to agree on."""

from __future__ import annotations

from collections.abc import Callable

import grpc.aio

from wire import names
from wire.channels import aio_channel
from wire.security import PLAIN, Security

Options = tuple[tuple[str, int], ...]

KEEPALIVE_MS = 10_000
"""A silent link is pinged after so long, and given up after as long again without an answer."""


def keepalive(interval_ms: int) -> Options:
    """A link that was cut tells nobody: without pings a call would wait for ever."""
    return (
        ("grpc.keepalive_time_ms", interval_ms),
        ("grpc.keepalive_timeout_ms", interval_ms),
        # How long gRPC really waits for the answer to a ping: a minute by default, whatever the one above says.
        ("grpc.http2.ping_timeout_ms", interval_ms),
        ("grpc.http2.max_pings_without_data", 0),
    )


CLIENT_OPTIONS: Options = (
    *keepalive(KEEPALIVE_MS),
    # A proxy of the environment is none of ours: agents are reached as they say.
    ("grpc.enable_http_proxy", 0),
    # The router has a back-off of its own; gRPC's would come on top of it.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 3_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)

SERVER_OPTIONS: Options = (
    *keepalive(KEEPALIVE_MS),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", KEEPALIVE_MS // 2),
    ("grpc.http2.max_ping_strikes", 0),
    # A pushed batch and what is around it; see site_agent/ingest.
    ("grpc.max_receive_message_length", 9 * 1024 * 1024),
    # Two agents must never share a port unnoticed.
    ("grpc.so_reuseport", 0),
)


Connect = Callable[[str, str], grpc.aio.Channel]
"""Opens a channel to the agent at host:port, of the site with that name."""


def connector(security: Security, options: Options = CLIENT_OPTIONS) -> Connect:
    """Opens channels to other sites' exchanges."""

    def connect(address: str, site: str) -> grpc.aio.Channel:
        return aio_channel(address, names.site(site), security, options)

    return connect


def connect(address: str, site: str = "") -> grpc.aio.Channel:
    """A plain-text connection to a site's exchange, for loopback."""
    return aio_channel(address, names.site(site), PLAIN, CLIENT_OPTIONS)
