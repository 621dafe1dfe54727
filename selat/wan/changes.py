"""Parses changes of links: `us->eu bandwidth=5Mbit/s loss=1%`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

from planner.values.quantities import BANDWIDTH_FORM, DURATION_FORM, RATIO_FORM, bandwidth_of, duration_of, ratio_of
from selat.wan.errors import WanError
from selat.wan.links import LinkChange, Pair

ANY = "*"
"""Stands for all sites."""
PAIR_FORM = "us->eu, us<->eu for both directions, or * for all sites, as in us->*"
FIGURES = ("bandwidth", "latency", "jitter", "loss")

_PAIR = re.compile(r"\s*([A-Za-z0-9_-]+?|\*)\s*(<->|->)\s*([A-Za-z0-9_-]+|\*)\s*", re.ASCII)
_FACTOR = re.compile(r"x(\d+(?:\.\d+)?)", re.ASCII)


def pairs_of(text: str, sites: Sequence[str]) -> tuple[Pair, ...]:
    """The ordered pairs that `us->eu`, `us<->eu`, `us->*` or `*->*` means.

    Raises:
        WanError: it is no such thing, or a site is unknown.
    """
    match = _PAIR.fullmatch(text)
    if match is None:
        raise WanError.of(f"{text!r} names no link", hint=f"write {PAIR_FORM}")
    source, arrow, target = match.groups()
    for site in (source, target):
        if site != ANY and site not in sites:
            raise WanError.of(f"there is no site {site}", hint=f"the sites are {', '.join(sites)}")
    if source == target != ANY:
        raise WanError.of(f"{text} leads from a site to itself", hint=f"write {PAIR_FORM}")
    pairs = [(a, b) for a in _all(source, sites) for b in _all(target, sites) if a != b]
    if arrow == "<->":
        pairs += [(b, a) for a, b in pairs]
    return tuple(dict.fromkeys(pairs))


def change_of(figures: Mapping[str, object]) -> LinkChange:
    """The change that the figures mean. A bandwidth may be a multiple of the topology's, as in x0.5.

    Raises:
        WanError: names the figure and the right form.
    """
    change = LinkChange()
    for name, value in figures.items():
        if name not in FIGURES:
            raise WanError.of(f"{name} is no figure of a link", hint=f"possible are {', '.join(FIGURES)}")
        change = _with_figure(change, name, value)
    if change == LinkChange():
        raise WanError.of("nothing to change", hint="for example bandwidth=5Mbit/s latency=80ms jitter=5ms loss=1%")
    return change


def change_of_words(words: Sequence[str]) -> LinkChange:
    """The change in words like `bandwidth=5Mbit/s`. Raises WanError."""
    figures: dict[str, object] = {}
    for word in words:
        name, separator, value = word.partition("=")
        if not separator:
            raise WanError.of(f"{word!r} is no figure", hint="write NAME=VALUE, as in bandwidth=5Mbit/s")
        figures[name] = value
    return change_of(figures)


def _with_figure(change: LinkChange, name: str, value: object) -> LinkChange:
    if name == "bandwidth":
        if isinstance(value, str) and (factor := _FACTOR.fullmatch(value)) and float(factor.group(1)) > 0:
            return replace(change, bandwidth_factor=float(factor.group(1)))
        if (bandwidth := bandwidth_of(value)) is not None:
            return replace(change, bandwidth_bytes_per_s=bandwidth)
        raise _invalid(name, value, f"{BANDWIDTH_FORM}, or a factor such as x0.5")
    if name == "loss":
        if isinstance(value, str) and value.replace(".", "", 1).isdigit():
            value = float(value)
        if (loss := ratio_of(value)) is not None:
            return replace(change, loss=loss)
        raise _invalid(name, value, RATIO_FORM)
    if (time := duration_of(value)) is None:
        raise _invalid(name, value, DURATION_FORM)
    return replace(change, latency=time) if name == "latency" else replace(change, jitter=time)


def _all(site: str, sites: Sequence[str]) -> Sequence[str]:
    return sites if site == ANY else (site,)


def _invalid(name: str, value: object, form: str) -> WanError:
    return WanError.of(f"{name} is {str(value)[:60]}", hint=f"it must be {form}")
