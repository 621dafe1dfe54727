"""A link's figures as commands of tc: at the sender, one HTB class for each other site.

Without the two oddities below, rates are off by up to 97 % when all pairs send at once:

- TCP hands over packets of up to 64 KB, which are cut behind the queue; a short queue drops them whole. So a device has
  `gso_max_segs 1`.
- Acknowledgements of what comes from a site would queue behind the bulk that goes to it. So packets that only
  acknowledge pass by the classes.

HTB counts bytes of the wire: a link of 20 Mbit/s carries 0.956 times that as payload of full-sized TCP packets.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import timedelta

from selat.wan.layout import WAN_DEVICE, Layout
from selat.wan.links import LinkState, Pair
from selat.wan.system import Batch

PAYLOAD_RATIO = 1448 / 1514
"""Payload of a full-sized TCP packet among its bytes on the wire."""

_QUEUE_S = 0.1
_LEAST_QUEUE_BYTES = 30_000
_LEAST_BURST_BYTES = 16 * 1024
_BURST_S = 0.001
_PACKET_BYTES = 1514
_OPEN_CLASS = "ff"
"""The class of traffic that is not shaped."""
_CLOSED_CLASS = "fe"
"""The class of severed links: its queue has no room."""
_IS_PURE_ACK = "match ip protocol 6 0xff match u8 0x05 0x0f at 0 match u16 0x0000 0xffc0 at 2 match u8 0x10 0xff at 33"
_ANY_PROTOCOL = "protocol ip"
_SEVERED, _SEVERED_MEANWHILE, _ACKS, _SHAPED = 1, 2, 3, 4
"""The order of the filters."""
_NOTHING = "match ip dst 0.0.0.0/32"


def queue_bytes(link: LinkState) -> int:
    """The size of a link's queue: 0.1 s of its bandwidth."""
    return max(_LEAST_QUEUE_BYTES, int(link.bandwidth_bytes_per_s * _QUEUE_S))


def root_lines(device: str = WAN_DEVICE) -> list[str]:
    """The device's root, its unshaped and its closed class."""
    return [
        f"qdisc replace dev {device} root handle 1: htb default 0x{_OPEN_CLASS}",
        f"class replace dev {device} parent 1: classid 1:{_OPEN_CLASS} htb rate 10gbit quantum 60000",
        f"class replace dev {device} parent 1: classid 1:{_CLOSED_CLASS} htb rate 8kbit quantum 1514",
        f"qdisc replace dev {device} parent 1:{_CLOSED_CLASS} bfifo limit 1",
        f"filter add dev {device} parent 1: {_ANY_PROTOCOL} prio {_ACKS} u32 {_IS_PURE_ACK} flowid 1:{_OPEN_CLASS}",
    ]


def class_line(index: int, link: LinkState, device: str = WAN_DEVICE) -> str:
    """Makes or changes the class of one other site."""
    burst = max(_LEAST_BURST_BYTES, int(link.bandwidth_bytes_per_s * _BURST_S))
    rate = f"rate {link.bits_per_s}bit ceil {link.bits_per_s}bit quantum {_PACKET_BYTES} burst {burst} cburst {burst}"
    return f"class replace dev {device} parent 1: classid 1:{index:x} htb {rate}"


def fifo_line(index: int, link: LinkState) -> str:
    """A queue without delay under a class."""
    return f"qdisc replace dev {WAN_DEVICE} parent 1:{index:x} bfifo limit {queue_bytes(link)}"


def netem_line(index: int, link: LinkState, device: str = WAN_DEVICE) -> str:
    """A queue with delay, jitter and loss below a class; packets under way count against its limit, too."""
    under_way_s = (link.latency + link.jitter).total_seconds() + _QUEUE_S
    limit = max(64, int(link.bandwidth_bytes_per_s * under_way_s / _PACKET_BYTES) + 32)
    jitter = f" {_microseconds(link.jitter)}" if link.jitter else ""
    loss = f" loss {link.loss * 100:g}%" if link.loss else ""
    delay = f"delay {_microseconds(link.latency)}{jitter}"
    return f"qdisc replace dev {device} parent 1:{index:x} netem {delay}{loss} limit {limit}"


def class_filter(match: str, index: int, device: str = WAN_DEVICE) -> str:
    """Sends matching packets into a class."""
    return f"filter add dev {device} parent 1: {_ANY_PROTOCOL} prio {_SHAPED} u32 {match} flowid 1:{index:x}"


def closing_lines(matches: Iterable[str], device: str = WAN_DEVICE) -> list[str]:
    """Lose all matching packets, acknowledgements too, and let all others pass; severed links stay severed throughout.

    No filter can be given another match. So the old ones go only while others that lose the same are there. What is
    not there cannot be deleted: each time, something that matches no packet is added first.
    """
    severed = tuple(matches)
    return [
        _closing_filter(_NOTHING, _SEVERED, device),
        _closing_filter(_NOTHING, _SEVERED_MEANWHILE, device),
        *(_closing_filter(match, _SEVERED_MEANWHILE, device) for match in severed),
        f"filter del dev {device} parent 1: {_ANY_PROTOCOL} prio {_SEVERED}",
        *(_closing_filter(match, _SEVERED, device) for match in severed),
        f"filter del dev {device} parent 1: {_ANY_PROTOCOL} prio {_SEVERED_MEANWHILE}",
    ]


def _closing_filter(match: str, order: int, device: str) -> str:
    return f"filter add dev {device} parent 1: {_ANY_PROTOCOL} prio {order} u32 {match} flowid 1:{_CLOSED_CLASS}"


def to_site(layout: Layout, site: str) -> str:
    """Matches packets to a site."""
    return f"match ip dst {layout.address(site)}/32"


def from_site(layout: Layout, site: str) -> str:
    """Matches packets from a site."""
    return f"match ip src {layout.address(site)}/32"


def shape_sender(layout: Layout, site: str, links: Mapping[Pair, LinkState], *, netem: bool) -> Batch:
    """Shape all of a sender's links at once, in its own namespace.

    Args:
        netem: delay, jitter and loss are the kernel's doing, too.
    """
    lines = root_lines()
    for (source, target), link in links.items():
        if source == site:
            index = layout.index(target)
            lines += [class_line(index, link), (netem_line if netem else fifo_line)(index, link)]
            lines.append(class_filter(to_site(layout, target), index))
    lines += closing_lines(_severed_targets(layout, site, links))
    return Batch("tc", layout.namespace(site), tuple(lines))


def reshape_senders(
    layout: Layout, links: Mapping[Pair, LinkState], pairs: Collection[Pair], *, netem: bool
) -> list[Batch]:
    """Change the figures of these pairs' links while traffic flows: a batch for each sender."""
    return [
        _reshape_sender(layout, source, links, [b for a, b in pairs if a == source], netem=netem)
        for source in dict.fromkeys(a for a, _ in pairs)
    ]


def _reshape_sender(
    layout: Layout, source: str, links: Mapping[Pair, LinkState], targets: Sequence[str], *, netem: bool
) -> Batch:
    lines = []
    for target in targets:
        index, link = layout.index(target), links[source, target]
        lines += [class_line(index, link), (netem_line if netem else fifo_line)(index, link)]
    lines += closing_lines(_severed_targets(layout, source, links))
    return Batch("tc", layout.namespace(source), tuple(lines))


def _severed_targets(layout: Layout, site: str, links: Mapping[Pair, LinkState]) -> list[str]:
    return [to_site(layout, target) for (source, target), link in links.items() if source == site and link.severed]


def _microseconds(time: timedelta) -> str:
    return f"{time // timedelta(microseconds=1)}us"
