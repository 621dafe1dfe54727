"""Sites and the links between them: the values, and how a topology file is read.

A topology file is YAML:

    gateway: hub                 # the site clients attach to; the first one when absent
    currency: USD                # of the prices of links, if they have any
    sites:
      hub: {slots: 2}
      ewr: {slots: 1, label: "New York", location: {lat: 40.7, lon: -74.2}}
    links:                       # either direction of a pair may be given by itself
      - {from: ewr, to: hub, bandwidth: 20Mbit/s, latency: 40ms, jitter: 5ms, loss: 0.1%, both: true}
    default_link: {bandwidth: 100Mbit/s, latency: 50ms}

Every ordered pair of sites has a link: one that `links` does not name gets the figures of `default_link`, which are
100 Mbit/s and 50 ms, without jitter or loss, when it is absent. A link may leave out any of its figures; those too come
from `default_link`. The forms of the figures are in `planner.values.quantities`; latency and jitter are one way. A link
may have a price, `price_per_gb: 0.02`, for 10^9 bytes that it carries. Label and location of a site are for people.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta

from planner.values.errors import InvalidDefinitionError
from planner.values.links import Pair
from planner.values.quantities import BANDWIDTH_FORM, DURATION_FORM, RATIO_FORM, bandwidth_of, duration_of, ratio_of

DEFAULT_BANDWIDTH_BYTES_PER_S = 100e6 / 8
DEFAULT_LATENCY = timedelta(milliseconds=50)
BYTES_PER_GB = 1_000_000_000
MOST_SLOTS = 100_000
"""Of one site. Each slot is a row of the lease manager's table: a number that is a mistake must not fill the memory."""

_CURRENCY = re.compile(r"[A-Z]{3}", re.ASCII)
_LONGEST_LABEL = 100
_MOST_PRICE = 1e9
_SITE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Location:
    """A place on earth, in degrees."""

    lat: float
    lon: float


@dataclass(frozen=True, slots=True)
class Site:
    name: str
    slots: int = 1
    address: str = ""
    draining: bool = False
    """It gets no new work. A snapshot says so, never a topology file."""
    label: str = ""
    """A name for people; empty: there is none but `name`."""
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class Link:
    """A directed link."""

    source: str
    target: str
    bandwidth_bytes_per_s: float
    latency: timedelta
    """One way."""
    jitter: timedelta = timedelta(0)
    """The latency varies by up to so much either way."""
    loss: float = 0.0
    """Share of packets lost, 0 to 1."""
    price_per_gb: float = 0.0
    """The price of 10^9 bytes, in the topology's currency."""


@dataclass(frozen=True, slots=True)
class Topology:
    """An immutable snapshot of all sites and ordered links."""

    sites: Mapping[str, Site]
    links: Mapping[Pair, Link]
    gateway: str
    currency: str = ""
    """Three letters; empty: links have no prices."""

    def cost(self, moved: Iterable[tuple[str, str, int]]) -> float | None:
        """The price of so many bytes over the links from and to; None when links have no prices."""
        if not self.currency:
            return None
        priced = ((self.link(source, target), size_bytes) for source, target, size_bytes in moved)
        return sum((link.price_per_gb * size_bytes / BYTES_PER_GB for link, size_bytes in priced if link), 0.0)

    @property
    def draining(self) -> frozenset[str]:
        """The sites that get no new work."""
        return frozenset(name for name, site in self.sites.items() if site.draining)

    def with_draining(self, draining: Collection[str]) -> Topology:
        """The same sites and links, with exactly these sites draining."""
        sites = {name: replace(site, draining=name in draining) for name, site in self.sites.items()}
        return replace(self, sites=sites)

    def link(self, source: str, target: str) -> Link | None:
        """The link from source to target; None when it is the same site or not known."""
        return self.links.get((source, target))


def parse_topology(data: object) -> Topology:
    """The topology that a file's data say.

    Args:
        data: what a YAML reader gives for the file.

    Raises:
        InvalidDefinitionError: names the key, as in `links[2].bandwidth`, and the right form.
    """
    top = _mapping(data, "the topology", ("gateway", "currency", "sites", "links", "default_link"))
    sites = _sites(top.get("sites"))
    default = _figures(_mapping(top.get("default_link") or {}, "default_link", _FIGURES), "default_link", _DEFAULT)
    links = {(a, b): replace(default, source=a, target=b) for a in sites for b in sites if a != b}
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
    currency = _currency(top.get("currency", ""), priced=any(link.price_per_gb for link in links.values()))
    return Topology(sites, links, _known_site(gateway, "gateway", sites), currency)


def _currency(value: object, *, priced: bool) -> str:
    if value == "" and not priced:
        return ""
    if not isinstance(value, str) or not _CURRENCY.fullmatch(value):
        raise _invalid("currency", value or None, "three capital letters, as in USD, for the prices of links")
    return value


_FIGURES = ("bandwidth", "latency", "jitter", "loss", "price_per_gb")
_DEFAULT = Link("", "", DEFAULT_BANDWIDTH_BYTES_PER_S, DEFAULT_LATENCY)


def _sites(data: object) -> dict[str, Site]:
    if not isinstance(data, Mapping) or not data:
        raise _invalid("sites", data, "at least one site: {ewr: {slots: 1}}")
    sites = {}
    for name, value in data.items():
        if not isinstance(name, str) or not _SITE_NAME.fullmatch(name):
            raise _invalid(f"sites.{name}", name, "a name of letters, digits, - and _, at most 63 characters")
        entry = _mapping(value if value is not None else {}, f"sites.{name}", _SITE_KEYS)
        slots, address = entry.get("slots", 1), entry.get("address", "")
        if not isinstance(slots, int) or isinstance(slots, bool) or not 1 <= slots <= MOST_SLOTS:
            raise _invalid(f"sites.{name}.slots", slots, f"a whole number from 1 to {MOST_SLOTS}")
        if not isinstance(address, str):
            raise _invalid(f"sites.{name}.address", address, "host:port")
        label = entry.get("label", "")
        if not isinstance(label, str) or len(label) > _LONGEST_LABEL or not label.isprintable():
            raise _invalid(f"sites.{name}.label", label, f"a name of {_LONGEST_LABEL} characters at most, in one line")
        sites[name] = Site(name, slots, address, label=label, location=_location(entry, f"sites.{name}.location"))
    return sites


_SITE_KEYS = ("slots", "address", "label", "location")
_MOST_DEGREES = {"lat": 90, "lon": 180}


def _location(site: Mapping[str, object], path: str) -> Location | None:
    if "location" not in site:
        return None
    entry = _mapping(site["location"], path, tuple(_MOST_DEGREES))
    degrees = []
    for name, most in _MOST_DEGREES.items():
        value = entry.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not -most <= value <= most:
            raise _invalid(f"{path}.{name}", value, f"degrees from -{most} to {most}")
        degrees.append(float(value))
    return Location(*degrees)


def _links(data: object, path: str, sites: Mapping[str, Site], default: Link) -> list[Link]:
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
    return [replace(figures, source=a, target=b) for a, b in pairs]


def _figures(entry: Mapping[str, object], path: str, default: Link) -> Link:
    """The default with what the entry says."""
    link = default
    if "bandwidth" in entry:
        bandwidth = bandwidth_of(entry["bandwidth"])
        if bandwidth is None:
            raise _invalid(f"{path}.bandwidth", entry["bandwidth"], BANDWIDTH_FORM)
        link = replace(link, bandwidth_bytes_per_s=bandwidth)
    if "latency" in entry:
        link = replace(link, latency=_duration(entry["latency"], f"{path}.latency"))
    if "jitter" in entry:
        link = replace(link, jitter=_duration(entry["jitter"], f"{path}.jitter"))
    if "loss" in entry:
        loss = ratio_of(entry["loss"])
        if loss is None:
            raise _invalid(f"{path}.loss", entry["loss"], RATIO_FORM)
        link = replace(link, loss=loss)
    if "price_per_gb" in entry:
        link = replace(link, price_per_gb=_price(entry["price_per_gb"], f"{path}.price_per_gb"))
    return link


def _price(value: object, path: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST_PRICE:
        raise _invalid(path, value, "a number from 0, of the topology's currency for 10^9 bytes")
    return float(value)


def _duration(value: object, path: str) -> timedelta:
    duration = duration_of(value)
    if duration is None:
        raise _invalid(path, value, DURATION_FORM)
    return duration


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
