"""The sockets at which this process and those it started listen."""

from __future__ import annotations

from collections.abc import Collection

import psutil

from machine.loopback import is_loopback
from site_agent.base.errors import SiteAgentError


def check_on_loopback(but: Collection[int] = ()) -> None:
    """Check that no socket can be reached from another machine, whichever setting of Spark opened it.

    `but` are ports of sockets at which the other end has to say who it is.

    Raises:
        SiteAgentError: one can; the message names its address and process.
    """
    process = psutil.Process()
    for one in (process, *process.children(recursive=True)):
        for socket in _connections(one):
            if (
                socket.status == psutil.CONN_LISTEN
                and socket.laddr.port not in but
                and not is_loopback(socket.laddr.ip)
            ):
                raise SiteAgentError(
                    f"{one.name()} (process {one.pid}) listens at {socket.laddr.ip} port {socket.laddr.port}, which is "
                    "not on loopback",
                    hint="look for a --spark-conf that opens it, or give --insecure in a network of hosts that you "
                    "trust",
                )


def _connections(process: psutil.Process) -> list[psutil._ntuples.pconn]:
    try:
        return process.net_connections(kind="tcp")
    except psutil.Error:
        return []
