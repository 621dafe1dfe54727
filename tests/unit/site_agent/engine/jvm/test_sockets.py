from __future__ import annotations

import socket

import pytest

from site_agent.base.errors import SiteAgentError
from site_agent.engine.jvm.sockets import check_on_loopback


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_sockets_on_loopback_are_fine(address: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family):
        check_on_loopback()


def test_a_socket_for_everybody_is_named() -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(SiteAgentError, match=rf"listens at 0\.0\.0\.0 port {port}, which is not on loopback"):
            check_on_loopback()
