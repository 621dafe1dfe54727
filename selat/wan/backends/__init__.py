"""How delay, jitter and loss come about; rates are HTB's in all of them.

| backend | delay, jitter, loss | needs |
|---|---|---|
| `netem` | the kernel's netem under each class | sch_netem |
| `tun` | a process of ours between TUN devices | /dev/net/tun |
| `uml-router` | netem in a User-Mode Linux in the middle | user-mode-linux, busybox, /dev/net/tun |
| `rate-only` | none | |
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol

from selat.wan.layout import Layout
from selat.wan.links import LinkState, Pair


class Backend(Protocol):
    """One way to make links between namespaces that exist already. Every call may raise WanError.

    Devices and processes are in the namespaces, the processes in the hub's: with them all of it is found and removed.
    """

    @property
    def name(self) -> str: ...

    def connect(self, layout: Layout, links: Mapping[Pair, LinkState]) -> None:
        """Give every site its WAN device, with its address, and shape all links."""
        ...

    def change(self, layout: Layout, links: Mapping[Pair, LinkState], pairs: Collection[Pair]) -> None:
        """These pairs' links have other figures now; `links` are all as they are to be."""
        ...

    def complaint(self, layout: Layout) -> str:
        """What no longer works, as when a process died; empty when all is well."""
        ...
