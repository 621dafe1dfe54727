"""The options about Spark's own clients, and where they may be used."""

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
        "--connect-cert", type=Path, metavar="FILE", help="a certificate for the host's name: clients connect by TLS"
    )
    parser.add_argument("--connect-key", type=Path, metavar="FILE", help="the key of --connect-cert")


def address(parsed: argparse.Namespace) -> str:
    """host:port for Spark's clients; empty: they are not served."""
    if parsed.connect_port is None:
        return ""
    return f"{parsed.listen.rpartition(':')[0]}:{parsed.connect_port}"


def certificate(parsed: argparse.Namespace) -> Certificate | None:
    """Return the certificate that Spark's clients check; None: there is no TLS for them."""
    if parsed.connect_cert is None or parsed.connect_key is None:
        return None
    return Certificate(parsed.connect_cert, parsed.connect_key)


def refusal_of(options: ServerOptions, *, auth: bool, insecure: bool) -> tuple[str, str]:
    """A message and a hint when Spark's clients may not be served like that; two empty texts when they may.

    They have no certificates of ours: where members prove who they are, these need tokens.
    """
    if not options.connect:
        return "", ""
    if options.tls_dir is not None and not auth:
        return (
            "--connect-port beside --tls-dir would let callers in who have no certificate",
            "give --auth, so that they need tokens",
        )
    if options.connect_certificate is None and not insecure:
        message, _ = refusal("--connect-port", options.connect)
        if message:
            return message, "give --connect-cert and --connect-key, or --insecure in a network of hosts that you trust"
    return "", ""


def _port(text: str) -> int:
    if not text.isdecimal() or not text.isascii() or int(text) > LAST_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is no port, as in 15002")
    return int(text)
