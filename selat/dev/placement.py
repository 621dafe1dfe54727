"""Where a cluster's processes run, and how they reach each other."""

from __future__ import annotations

from typing import Protocol


class Placement(Protocol):
    """Loopback, or namespaces with a WAN between them."""

    @property
    def own_network(self) -> bool:
        """Whether servers listen on a network that was made for this cluster alone."""
        ...

    @property
    def isolated(self) -> bool:
        """Whether each site must have a process of its own."""
        ...

    @property
    def probes(self) -> bool:
        """Whether there are links that are worth probing."""
        ...

    def master_listen(self, address: str) -> str:
        """host:port at which the master listens, given the address for clients."""
        ...

    def client_address(self, address: str) -> str:
        """host:port at which clients on this machine reach it."""
        ...

    def master_for_agents(self, address: str) -> str:
        """host:port at which agents reach it."""
        ...

    def agent_listen(self, site: str) -> str:
        """host:port of a site's agent; port 0 takes a free one."""
        ...

    def entrance(self, site: str | None) -> tuple[str, ...]:
        """The words in front of the command of a site's agent; None: of the master's."""
        ...


class Loopback:
    """Everything on the machine's own loopback."""

    own_network = False
    isolated = False
    probes = False

    def master_listen(self, address: str) -> str:
        return address

    def client_address(self, address: str) -> str:
        return address

    def master_for_agents(self, address: str) -> str:
        return address

    def agent_listen(self, site: str) -> str:
        return "127.0.0.1:0"

    def entrance(self, site: str | None) -> tuple[str, ...]:
        return ()
