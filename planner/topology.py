"""Sites and the links between them: the values, and how a topology file is read.

A topology file is YAML:

    gateway: hub                 # the site clients attach to; the first one when absent
    sites:
      hub: {slots: 2}
      ewr: {slots: 1}
    links:                       # either direction of a pair may be given by itself
      - {from: ewr, to: hub, bandwidth: 20Mbit/s, latency: 40ms, both: true}
    default_link: {bandwidth: 100Mbit/s, latency: 50ms}

Every ordered pair of sites has a link: one that `links` does not name gets the figures of `default_link`, which are
100 Mbit/s and 50 ms when it is absent. A link may leave out one of its figures; that too comes from `default_link`.
Bandwidths are bits (kbit/s, Mbit/s, Gbit/s) or bytes (kB/s, MB/s, GB/s) per second with decimal prefixes; latencies
are us, ms or s, one way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import networkx

from planner.errors import InvalidDefinitionError

DEFAULT_BANDWIDTH_BYTES_PER_S = 100e6 / 8
DEFAULT_LATENCY = timedelta(milliseconds=50)

BANDWIDTH_FORM = "a bandwidth such as 20Mbit/s, 1Gbit/s, 500kbit/s or 10MB/s"
LATENCY_FORM = "a latency such as 40ms or 0.2s"
_QUANTITY = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z/]+)\s*", re.ASCII)
_BANDWIDTH_UNITS = {"bit/s": 0.125, "kbit/s": 125.0, "mbit/s": 125e3, "gbit/s": 125e6}
_BANDWIDTH_UNITS |= {"b/s": 1.0, "kb/s": 1e3, "mb/s": 1e6, "gb/s": 1e9}
_LATENCY_UNITS = {"us": timedelta(microseconds=1), "ms": timedelta(milliseconds=1), "s": timedelta(seconds=1)}
_SITE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Site:
    name: str
    slots: int = 1
    address: str = ""


@dataclass(frozen=True, slots=True)
class Link:
    """A directed link."""

    source: str
    target: str
    bandwidth_bytes_per_s: float
    latency: timedelta


@dataclass(frozen=True, slots=True)
class Topology:
    """An immutable snapshot of all sites and ordered links."""

    sites: Mapping[str, Site]
    links: Mapping[tuple[str, str], Link]
    gateway: str

    def link(self, source: str, target: str) -> Link | None:
        """The link from source to target; None when it is the same site or not known."""
        return self.links.get((source, target))


def topology_graph(topology: Topology) -> networkx.DiGraph:
    """The topology as a graph: nodes are sites (`slots`), edges links (`bandwidth_bytes_per_s`, `latency_s`)."""
    graph = networkx.DiGraph(gateway=topology.gateway)
    for name in sorted(topology.sites):
        graph.add_node(name, slots=topology.sites[name].slots)
    for (source, target), link in sorted(topology.links.items()):
        graph.add_edge(
            source,
            target,
            bandwidth_bytes_per_s=link.bandwidth_bytes_per_s,
            latency_s=link.latency.total_seconds(),
        )
    return graph


def parse_topology(data: object) -> Topology:
    """The topology that a file's data say.

    Args:
        data: what a YAML reader gives for the file.

    Raises:
        InvalidDefinitionError: names the key, as in `links[2].bandwidth`, and the right form.
    """
    top = _mapping(data, "the topology", ("gateway", "sites", "links", "default_link"))
    sites = _sites(top.get("sites"))
    default = _figures(_mapping(top.get("default_link") or {}, "default_link", _FIGURES), "default_link", _DEFAULTS)
    links = {(a, b): Link(a, b, *default) for a in sites for b in sites if a != b}
    named: set[tuple[str, str]] = set()
    listed = top.get("links") or []
    if not isinstance(listed, list):
        raise _invalid("links", listed, "a list of {from: a, to: b, bandwidth: 20Mbit/s, latency: 40ms}")
    for index, entry in enumerate(listed):
        for link in _links(entry, f"links[{index}]", sites, default):
            if (link.source, link.target) in named:
                raise _invalid(f"links[{index}]", f"{link.source} to {link.target}", "each ordered pair at most once")
            named.add((link.source, link.target))
            links[link.source, link.target] = link
    gateway = top.get("gateway", next(iter(sites)))
    return Topology(sites, links, _known_site(gateway, "gateway", sites))


_FIGURES = ("bandwidth", "latency")
_DEFAULTS = (DEFAULT_BANDWIDTH_BYTES_PER_S, DEFAULT_LATENCY)


def _sites(data: object) -> dict[str, Site]:
    if not isinstance(data, Mapping) or not data:
        raise _invalid("sites", data, "at least one site: {ewr: {slots: 1}}")
    sites = {}
    for name, value in data.items():
        if not isinstance(name, str) or not _SITE_NAME.fullmatch(name):
            raise _invalid(f"sites.{name}", name, "a name of letters, digits, - and _, at most 63 characters")
        entry = _mapping(value if value is not None else {}, f"sites.{name}", ("slots", "address"))
        slots, address = entry.get("slots", 1), entry.get("address", "")
        if not isinstance(slots, int) or isinstance(slots, bool) or slots < 1:
            raise _invalid(f"sites.{name}.slots", slots, "a whole number of at least 1")
        if not isinstance(address, str):
            raise _invalid(f"sites.{name}.address", address, "host:port")
        sites[name] = Site(name, slots, address)
    return sites


def _links(data: object, path: str, sites: Mapping[str, Site], default: tuple[float, timedelta]) -> list[Link]:
    entry = _mapping(data, path, ("from", "to", "both", *_FIGURES))
    source = _known_site(entry.get("from"), f"{path}.from", sites)
    target = _known_site(entry.get("to"), f"{path}.to", sites)
    if source == target:
        raise _invalid(f"{path}.to", target, "another site than `from`")
    both = entry.get("both", False)
    if not isinstance(both, bool):
        raise _invalid(f"{path}.both", both, "true or false")
    figures = _figures(entry, path, default)
    pairs = [(source, target), (target, source)] if both else [(source, target)]
    return [Link(a, b, *figures) for a, b in pairs]


def _figures(entry: Mapping[str, object], path: str, default: tuple[float, timedelta]) -> tuple[float, timedelta]:
    bandwidth, latency = default
    if "bandwidth" in entry:
        amount, unit = _quantity(entry["bandwidth"], f"{path}.bandwidth", BANDWIDTH_FORM, tuple(_BANDWIDTH_UNITS))
        bandwidth = amount * _BANDWIDTH_UNITS[unit]
        if not bandwidth:
            raise _invalid(f"{path}.bandwidth", entry["bandwidth"], f"more than nothing: {BANDWIDTH_FORM}")
    if "latency" in entry:
        amount, unit = _quantity(entry["latency"], f"{path}.latency", LATENCY_FORM, tuple(_LATENCY_UNITS))
        latency = amount * _LATENCY_UNITS[unit]
    return bandwidth, latency


def _quantity(value: object, path: str, form: str, units: tuple[str, ...]) -> tuple[float, str]:
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) and len(value) <= 32 else None
    if match is None or match.group(2).lower() not in units:
        raise _invalid(path, value, form)
    return float(match.group(1)), match.group(2).lower()


def _known_site(name: object, path: str, sites: Mapping[str, Site]) -> str:
    if not isinstance(name, str) or name not in sites:
        raise _invalid(path, name, f"one of the sites {', '.join(sites)}")
    return name


def _mapping(data: object, path: str, keys: tuple[str, ...]) -> Mapping[str, object]:
    if not isinstance(data, Mapping):
        raise _invalid(path, data, f"keys and values; possible keys are {', '.join(keys)}")
    for key in data:
        if key not in keys:
            where = str(key) if path == "the topology" else f"{path}.{key}"
            raise InvalidDefinitionError(
                f"{where} is not a key of a topology",
                found=str(key),
                hint=f"Possible keys there are {', '.join(keys)}.",
                ids={"key": where},
            )
    return data


def _invalid(path: str, value: object, form: str) -> InvalidDefinitionError:
    shown = "nothing" if value is None else str(value)[:60]
    return InvalidDefinitionError(f"{path} is {shown}", found=shown, hint=f"It must be {form}.", ids={"key": path})
