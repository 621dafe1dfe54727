"""Scenarios: what happens to links, sites and sources, and when.

A scenario file is YAML, a list of events in any order:

    - {at: 0s, set: us->eu, bandwidth: 5Mbit/s, latency: 80ms}    # figures as in `selat wan set`
    - {at: 30s, set: "*->*", bandwidth: x0.5}                     # half of what the topology file says
    - {at: 60s, sever: us->eu}
    - {at: 80s, heal: us->eu}
    - {at: 90s, kill: asia}                                       # all processes of the site, kept down
    - {at: 2min, revive: asia}
    - {at: 2min, rate: clicks, factor: 2}                         # times the stream's rate when the scenario began
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import Enum

from planner.values.quantities import DURATION_FORM, duration_of
from selat.wan.changes import FIGURES, change_of, pairs_of
from selat.wan.errors import WanError
from selat.wan.links import LinkChange, Pair


class SiteAction(Enum):
    KILL = "kill"
    REVIVE = "revive"


@dataclass(frozen=True, slots=True)
class LinkEvent:
    """New figures for links, or links that are severed or healed."""

    at: timedelta
    text: str
    changes: Mapping[Pair, LinkChange]


@dataclass(frozen=True, slots=True)
class SiteEvent:
    at: timedelta
    text: str
    site: str
    action: SiteAction


@dataclass(frozen=True, slots=True)
class RateEvent:
    """A stream's sources become `factor` times as fast as at the beginning of the scenario."""

    at: timedelta
    text: str
    stream: str
    factor: float


Event = LinkEvent | SiteEvent | RateEvent

_VERBS = ("set", "sever", "heal", "kill", "revive", "rate")


def parse_scenario(data: object, sites: Sequence[str]) -> tuple[Event, ...]:
    """The events, in order of time.

    Args:
        data: what a YAML reader gives for the file.

    Raises:
        WanError: names the event, as in `[3].bandwidth`, and the right form.
    """
    if not isinstance(data, list) or not data:
        raise WanError.of("a scenario is a list of events", hint="for example - {at: 30s, sever: us->eu}")
    events = [_event(entry, index, sites) for index, entry in enumerate(data)]
    return tuple(sorted(events, key=lambda event: event.at))


def _event(entry: object, index: int, sites: Sequence[str]) -> Event:
    if not isinstance(entry, Mapping):
        raise WanError.of(f"[{index}] is no event", hint="for example {at: 30s, sever: us->eu}")
    at = duration_of(entry.get("at"))
    if at is None:
        raise WanError.of(f"[{index}].at is {entry.get('at')}", hint=f"it must be {DURATION_FORM}")
    verbs = [verb for verb in _VERBS if verb in entry]
    if len(verbs) != 1:
        raise WanError.of(f"[{index}] says {' and '.join(verbs) or 'nothing'}", hint=f"one of {', '.join(_VERBS)}")
    _refuse_other_keys(entry, index, verbs[0])
    try:
        return _of_verb(verbs[0], entry, at, sites)
    except WanError as error:
        raise WanError.of(f"[{index}]: {error.message}", hint=error.hint) from None


def _refuse_other_keys(entry: Mapping[object, object], index: int, verb: str) -> None:
    possible = {"at", verb, *(FIGURES if verb == "set" else ()), *(("factor",) if verb == "rate" else ())}
    for key in entry:
        if key not in possible:
            raise WanError.of(f"[{index}].{key} is not known", hint=f"possible are {', '.join(sorted(possible))}")


def _of_verb(verb: str, entry: Mapping[str, object], at: timedelta, sites: Sequence[str]) -> Event:
    subject = str(entry[verb])
    text = f"{verb} {subject}"
    if verb in ("kill", "revive"):
        if subject not in sites:
            raise WanError.of(f"there is no site {subject}", hint=f"the sites are {', '.join(sites)}")
        return SiteEvent(at, text, subject, SiteAction(verb))
    if verb == "rate":
        factor = entry.get("factor")
        if isinstance(factor, bool) or not isinstance(factor, int | float) or factor < 0:
            raise WanError.of(f"factor is {factor}", hint="it must be a number of at least 0, as in factor: 2")
        return RateEvent(at, f"{text} x{factor:g}", subject, float(factor))
    if verb == "set":
        figures = {name: entry[name] for name in FIGURES if name in entry}
        change = change_of(figures)
        text = " ".join([text, *(f"{name}={value}" for name, value in figures.items())])
    else:
        change = LinkChange(severed=verb == "sever")
    return LinkEvent(at, text, dict.fromkeys(pairs_of(subject, sites), change))
