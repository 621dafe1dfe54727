"""Tests where Spark's own clients may be served."""

from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from master.config import connect
from master.config.values import ServerOptions
from wire.guests import Certificate


def parsed(*given: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--listen", default="127.0.0.1:7410")
    connect.add_options(parser)
    return parser.parse_args(given)


def options(listen: str = "127.0.0.1:7410", *, tls: bool = False, certificate: bool = False) -> ServerOptions:
    host = listen.rpartition(":")[0]
    return ServerOptions(
        listen,
        Path("data"),
        Path("topology"),
        tls_dir=Path("tls") if tls else None,
        connect=f"{host}:15002",
        connect_certificate=Certificate(Path("c"), Path("k")) if certificate else None,
    )


def test_they_are_not_served_unless_asked_for() -> None:
    assert connect.address(parsed()) == ""
    assert connect.refusal_of(ServerOptions("0.0.0.0:1", Path("d"), Path("t")), auth=False, insecure=False) == ("", "")
    assert connect.address(parsed("--connect-port", "0")) == "127.0.0.1:0"
    assert connect.certificate(parsed("--connect-cert", "c")) is None
    assert connect.certificate(parsed("--connect-cert", "c", "--connect-key", "k")) is not None


@pytest.mark.parametrize("port", ["-1", "65536", "x"])
def test_a_port_is_one(port: str) -> None:
    with pytest.raises(SystemExit):
        parsed("--connect-port", port)


@pytest.mark.parametrize(
    ("given", "auth", "insecure", "said"),
    [
        (options(), False, False, ""),
        (options(tls=True), False, False, "callers in who have no certificate"),
        (options(tls=True), False, True, "callers in who have no certificate"),
        (options(tls=True), True, False, ""),
        (options("192.0.2.1:1"), True, False, "not on loopback"),
        (options("192.0.2.1:1"), True, True, ""),
        (options("192.0.2.1:1", certificate=True), True, False, ""),
    ],
)
def test_walls(given: ServerOptions, auth: bool, insecure: bool, said: str) -> None:
    message, hint = connect.refusal_of(given, auth=auth, insecure=insecure)
    assert said in message
    assert bool(message) is bool(hint) is bool(said)
