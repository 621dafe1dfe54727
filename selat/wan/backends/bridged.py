"""`rate-only` and `netem`: sites on one bridge, shaped where they send."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from selat.wan.layout import WAN_DEVICE, Layout
from selat.wan.links import LinkState, Pair
from selat.wan.shaping import reshape_senders, shape_sender
from selat.wan.system import Batch, System


class BridgedBackend:
    """Both backends; `netem` says which one."""

    def __init__(self, system: System, *, netem: bool) -> None:
        self._system = system
        self._netem = netem

    @property
    def name(self) -> str:
        return "netem" if self._netem else "rate-only"

    def connect(self, layout: Layout, links: Mapping[Pair, LinkState]) -> None:
        self._system.apply([Batch("ip", layout.hub, ("link add br0 type bridge", "link set br0 up"))])
        for site in layout.sites:
            self._system.apply(join_bridge(layout, site))
            self._system.apply([shape_sender(layout, site, links, netem=self._netem)])

    def change(self, layout: Layout, links: Mapping[Pair, LinkState], pairs: Collection[Pair]) -> None:
        self._system.apply(reshape_senders(layout, links, pairs, netem=self._netem))

    def complaint(self, layout: Layout) -> str:
        return ""


def join_bridge(layout: Layout, site: str) -> list[Batch]:
    """A pair of devices from the site to the hub's bridge."""
    port, namespace = layout.port_device(site), layout.namespace(site)
    return [
        Batch(
            "ip",
            layout.hub,
            (
                f"link add {port} type veth peer name {WAN_DEVICE} netns {namespace}",
                f"link set {port} master br0 up",
            ),
        ),
        Batch("ip", namespace, device_lines(layout, site)),
    ]


def device_lines(layout: Layout, site: str) -> tuple[str, ...]:
    """Lines that give the site's device its address and enable it, with packets sent one by one, see
    `selat.wan.shaping`."""
    return (
        f"addr add {layout.address(site)}/24 dev {WAN_DEVICE}",
        f"link set {WAN_DEVICE} gso_max_segs 1 txqueuelen 1000 up",
    )
