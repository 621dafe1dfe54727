"""A development cluster inside an emulated WAN: each site's agent in its namespace, the master in the gateway's."""

from __future__ import annotations

from selat.wan.emulation import Emulations
from selat.wan.record import Record

ANYWHERE = "0.0.0.0"


class InNamespaces:
    """A `selat.dev.placement.Placement`."""

    own_network = True
    isolated = True
    probes = True

    def __init__(self, emulations: Emulations, record: Record) -> None:
        self._emulations = emulations
        self._record = record

    def master_listen(self, address: str) -> str:
        """On every device of its namespace: agents come over the WAN, clients over the uplink."""
        return f"{ANYWHERE}:{_port(address)}"

    def client_address(self, address: str) -> str:
        return f"{self._record.layout.uplink_address}:{_port(address)}"

    def master_for_agents(self, address: str) -> str:
        layout = self._record.layout
        return f"{layout.address(layout.gateway)}:{_port(address)}"

    def agent_listen(self, site: str) -> str:
        return f"{self._record.layout.address(site)}:0"

    def entrance(self, site: str | None) -> tuple[str, ...]:
        return self._emulations.entrance(self._record, site or self._record.layout.gateway)


def _port(address: str) -> str:
    return address.rpartition(":")[2]
