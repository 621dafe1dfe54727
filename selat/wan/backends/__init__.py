"""How delay, jitter and loss are emulated; HTB limits the rate in every backend.

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
        """Change the figures of these pairs' links; `links` has all links after the change."""
        ...

    def complaint(self, layout: Layout) -> str:
        """What no longer works, for example a process that died; empty when everything does."""
        ...
