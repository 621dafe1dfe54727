"""Tests where clients of other systems may be served."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import pytest

from master.config import guests
from master.config.values import ServerOptions
from wire.guests import Certificate


def parsed(*given: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--listen", default="127.0.0.1:7410")
    guests.add_options(parser)
    return parser.parse_args(given)


def options(listen: str = "127.0.0.1:7410", *, tls: bool = False, certificate: bool = False) -> ServerOptions:
    host = listen.rpartition(":")[0]
    return ServerOptions(
        listen,
        Path("data"),
        Path("topology"),
        tls_dir=Path("tls") if tls else None,
        connect=f"{host}:15002",
        guest_certificate=Certificate(Path("c"), Path("k")) if certificate else None,
    )


def test_they_are_not_served_unless_asked_for() -> None:
    assert guests.addresses(parsed()) == ("", "")
    assert guests.refusal_of(ServerOptions("0.0.0.0:1", Path("d"), Path("t")), auth=False, insecure=False) == ("", "")
    assert guests.addresses(parsed("--connect-port", "0")) == ("127.0.0.1:0", "")
    assert guests.addresses(parsed("--flight-port", "31337")) == ("", "127.0.0.1:31337")
    assert guests.certificate(parsed("--connect-cert", "c")) is None
    assert guests.certificate(parsed("--connect-cert", "c", "--connect-key", "k")) is not None


@pytest.mark.parametrize("option", ["--connect-port", "--flight-port"])
@pytest.mark.parametrize("port", ["-1", "65536", "x"])
def test_a_port_is_one(option: str, port: str) -> None:
    with pytest.raises(SystemExit):
        parsed(option, port)


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
    message, hint = guests.refusal_of(given, auth=auth, insecure=insecure)
    flight = replace(given, connect="", flight=given.connect)
    assert guests.refusal_of(flight, auth=auth, insecure=insecure)[0] == message.replace("connect-port", "flight-port")
    assert said in message
    assert bool(message) is bool(hint) is bool(said)
