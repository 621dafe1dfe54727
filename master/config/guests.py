"""The options about guests, and where they may be used.

Guests are clients of other systems: Spark's own, and those of Arrow Flight SQL. Each kind has a port of its own.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from machine.loopback import refusal
from master.config.values import ServerOptions
from wire.guests import Certificate

LAST_PORT = 65535


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--connect-port",
        type=_port,
        metavar="PORT",
        help="serve Spark's own clients (sc://...) at this port of the host of --listen; default: they are not served",
    )
    parser.add_argument(
        "--connect-cert",
        type=Path,
        metavar="FILE",
        help="a certificate for the host's name: clients at --connect-port and --flight-port connect by TLS",
    )
    parser.add_argument("--connect-key", type=Path, metavar="FILE", help="the key of --connect-cert")
    parser.add_argument(
        "--flight-port",
        type=_port,
        metavar="PORT",
        help="serve clients of Arrow Flight SQL at this port of the host of --listen; default: they are not served",
    )


def addresses(parsed: argparse.Namespace) -> tuple[str, str]:
    """Return host:port for Spark's clients, and for those of Flight SQL; empty: they are not served."""
    host = parsed.listen.rpartition(":")[0]
    spark, flight = ("" if port is None else f"{host}:{port}" for port in (parsed.connect_port, parsed.flight_port))
    return spark, flight


def certificate(parsed: argparse.Namespace) -> Certificate | None:
    """Return the certificate that guests check; None: there is no TLS for them."""
    if parsed.connect_cert is None or parsed.connect_key is None:
        return None
    return Certificate(parsed.connect_cert, parsed.connect_key)


def refusal_of(options: ServerOptions, *, auth: bool, insecure: bool) -> tuple[str, str]:
    """A message and a hint when guests may not be served like that; two empty texts when they may.

    They have no certificates of ours: where members prove who they are, these need tokens.
    """
    for option, address in (("--connect-port", options.connect), ("--flight-port", options.flight)):
        if not address:
            continue
        if options.tls_dir is not None and not auth:
            return (
                f"{option} beside --tls-dir would let callers in who have no certificate",
                "give --auth, so that they need tokens",
            )
        if options.guest_certificate is None and not insecure:
            message, _ = refusal(option, address)
            if message:
                hint = "give --connect-cert and --connect-key, or --insecure in a network of hosts that you trust"
                return message, hint
    return "", ""


def _port(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or int(text) > LAST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is no port, as in 15002")
    return int(text)
