"""Connections between sites, and the gRPC options that both ends of an exchange must agree on."""

from __future__ import annotations

from collections.abc import Callable

import grpc.aio

from wire import names
from wire.channels import aio_channel
from wire.security import PLAIN, Security

Options = tuple[tuple[str, int], ...]

KEEPALIVE_MS = 10_000
"""After this time without traffic a connection is pinged; after as long again without an answer it is given up."""


def keepalive(interval_ms: int) -> Options:
    """Keepalive options: without pings, a call over a broken link would wait for ever."""
    return (
        ("grpc.keepalive_time_ms", interval_ms),
        ("grpc.keepalive_timeout_ms", interval_ms),
        # How long gRPC really waits for the answer to a ping: a minute by default, whatever the option above says.
        ("grpc.http2.ping_timeout_ms", interval_ms),
        ("grpc.http2.max_pings_without_data", 0),
    )


CLIENT_OPTIONS: Options = (
    *keepalive(KEEPALIVE_MS),
    # Agents are reached directly, never through a proxy of the environment.
    ("grpc.enable_http_proxy", 0),
    # The router has its own back-off; gRPC's would add to it.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 3_000),
    ("grpc.max_reconnect_backoff_ms", 1_000),
)

SERVER_OPTIONS: Options = (
    *keepalive(KEEPALIVE_MS),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", KEEPALIVE_MS // 2),
    ("grpc.http2.max_ping_strikes", 0),
    # A pushed batch and its envelope; see site_agent/ingest.
    ("grpc.max_receive_message_length", 9 * 1024 * 1024),
    # Two agents must never share a port by mistake.
    ("grpc.so_reuseport", 0),
)


Connect = Callable[[str, str], grpc.aio.Channel]
"""Opens a connection to the agent of a site at host:port."""


def connector(security: Security, options: Options = CLIENT_OPTIONS) -> Connect:
    """A function that opens connections to other sites' exchanges."""

    def connect(address: str, site: str) -> grpc.aio.Channel:
        return aio_channel(address, names.site(site), security, options)

    return connect


def connect(address: str, site: str = "") -> grpc.aio.Channel:
    """A plain-text connection to a site's exchange, for loopback."""
    return aio_channel(address, names.site(site), PLAIN, CLIENT_OPTIONS)
