"""Who can reach a listening socket: without identities of members, whoever can is trusted."""

from __future__ import annotations

import ipaddress
import socket

INSECURE_HELP = "listen elsewhere than on loopback, for whoever can connect: see docs/security.md"


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches a socket that is bound to the host: all that it resolves to is loopback."""
    try:
        found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    return all(_is_loopback_address(str(address[4][0])) for address in found)


def refusal(option: str, address: str) -> tuple[str, str]:
    """What is wrong with HOST:PORT without `--insecure`, and what would be right; two empty texts: nothing is."""
    host, _, port = address.rpartition(":")
    if is_loopback(host):
        return "", ""
    return (
        f"{option} {address} is not on loopback, and whoever connects there may do everything",
        f"give 127.0.0.1:{port}, or --insecure in a network of hosts that you trust",
    )


def _is_loopback_address(text: str) -> bool:
    address = ipaddress.ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
