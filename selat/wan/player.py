"""Plays a scenario: applies events at their times to an emulated WAN and a running cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from selat.wan.emulation import Emulations
from selat.wan.errors import WanError
from selat.wan.record import Record
from selat.wan.scenario import Event, LinkEvent, RateEvent, SiteAction, SiteEvent

if TYPE_CHECKING:
    import selat

RATE_OPTION = "rows_per_second"


class Rates(Protocol):
    """Rates of streams, which only a running cluster can change."""

    def multiply(self, stream: str, factor: float) -> None:
        """Make a stream's sources `factor` times as fast as they were at the beginning."""
        ...


@dataclass(slots=True)
class ClusterRates:
    """Changes the generators of a cluster; remembers their original rates."""

    client: selat.Client
    _found: dict[str, Mapping[str, float]] = field(default_factory=dict)

    def multiply(self, stream: str, factor: float) -> None:
        if stream not in self._found:
            self._found[stream] = self._rates(stream)
        for site, rate in self._found[stream].items():
            self.client.alter(stream, {RATE_OPTION: f"{rate * factor:g}"}, site=site)

    def _rates(self, stream: str) -> Mapping[str, float]:
        bindings = self.client.stream(stream).bindings
        rates = {b.site: float(b.options[RATE_OPTION]) for b in bindings if RATE_OPTION in b.options}
        if not rates:
            raise WanError.of(
                f"the rate of {stream} cannot be changed", hint=f"its connector has no option {RATE_OPTION}"
            )
        return rates


@dataclass(frozen=True, slots=True)
class Stage:
    """The emulation and the cluster that events change."""

    emulations: Emulations
    record: Record
    rates: Rates | None
    """None: no cluster was named."""


def play(events: Sequence[Event], stage: Stage, *, speed: float, report: Callable[[Event, float], None]) -> None:
    """Play the scenario until its last event is applied.

    Args:
        speed: 2 plays twice as fast.
        report: told of each event when it is done, with the seconds since the beginning.

    Raises:
        WanError: an event cannot be done; says which. Those before it are done, the rest is not.
    """
    started_s = time.monotonic()
    for event in events:
        due_s = started_s + event.at.total_seconds() / speed
        time.sleep(max(0.0, due_s - time.monotonic()))
        try:
            _do(event, stage)
        except WanError as error:
            raise WanError.of(
                f"at {event.at.total_seconds():g} s, {event.text}: {error.message}", hint=error.hint
            ) from None
        report(event, time.monotonic() - started_s)


def _do(event: Event, stage: Stage) -> None:
    match event:
        case LinkEvent():
            stage.emulations.change(stage.record.layout.name, event.changes)
        case SiteEvent(action=SiteAction.KILL):
            stage.emulations.kill(stage.record, event.site)
        case SiteEvent():
            stage.emulations.revive(stage.record, event.site)
        case RateEvent():
            if stage.rates is None:
                raise WanError.of(f"no cluster to change the rate of {event.stream} in", hint="give its --master")
            stage.rates.multiply(event.stream, event.factor)
