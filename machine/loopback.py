"""Loopback, and the defaults elsewhere. Without certificates a process trusts everybody who can reach it."""

from __future__ import annotations

import ipaddress
import socket

INSECURE_HELP = "listen elsewhere than on loopback, for whoever can connect: see docs/security.md"
TLS_HELP = "has ca.pem, member.pem and member.key : connections are encrypted, both ends say who they are"


def is_loopback(host: str) -> bool:
    """True when every address that the host resolves to is loopback, so that only this machine can connect to it."""
    try:
        found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return all(_is_loopback_address(str(address[4][0])) for address in found)


def refusal(option: str, address: str) -> tuple[str, str]:
    """A message and a hint when HOST:PORT needs `--insecure`; two empty texts when it does not."""
    host, _, port = address.rpartition(":")
    if is_loopback(host):
        return "", ""
    return (
        f"{option} {address} is not on loopback, and whoever connects there may do everything",
        f"give 127.0.0.1:{port}, or --tls-dir with certificates, or --insecure in a network of hosts that you trust",
    )


def is_exposed(address: str) -> bool:
    """True when others than this machine can connect to HOST:PORT."""
    return not is_loopback(address.rpartition(":")[0])


def allows_functions(choice: str | None, *, insecure: bool) -> bool:
    """True when Python functions may run, by `--python-functions` if it is given, else unless others can connect."""
    return choice == "allow" if choice else not insecure


def _is_loopback_address(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
