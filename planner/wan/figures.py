"""What plans reckon links with: measured where the monitor has measured, the topology file's figures elsewhere."""

from __future__ import annotations

from collections.abc import Mapping

from planner.values.links import LinkFigures, Pair
from planner.values.topology import Topology
from planner.wan.snapshot import WanSnapshot


def link_figures(topology: Topology, wan: WanSnapshot | None) -> Mapping[Pair, LinkFigures]:
    """The figures of every link of the topology.

    Latency is always the topology file's: round trips are known only as those of echoes, which wait in the same queues
    as our own transfers.

    Args:
        topology: all sites and links.
        wan: the monitor's view; None: nothing was measured.
    """
    return {pair: _figures(topology, wan, pair) for pair in topology.links}


def _figures(topology: Topology, wan: WanSnapshot | None, pair: Pair) -> LinkFigures:
    declared = topology.links[pair]
    view = wan.link(*pair) if wan is not None else None
    if view is not None and view.figures.age is not None:
        return view.figures
    # How much of a declared bandwidth is in use says little as long as nobody has measured whether the link carries it.
    bandwidth = declared.bandwidth_bytes_per_s
    return LinkFigures(*pair, bandwidth, bandwidth, declared.latency)
