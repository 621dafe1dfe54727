"""What earlier rounds leave for the next: figures of links, actions whose effect is awaited, operators left alone."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from planner.adapt.diagnose import Cause, Finding
from planner.adapt.model import Group, Settings
from planner.adapt.options import Option
from planner.values.links import Pair

_TIMES = 8
"""So many of the last adaptations of a query say how often it is adapted."""


@dataclass(frozen=True, slots=True)
class Awaited:
    """An action, and when its effect must be seen."""

    option: Option
    cause: Cause
    deficit: float
    """Of what had to pass, the share that did not."""
    due: datetime


@dataclass(frozen=True, slots=True)
class Failed:
    """Actions upon an operator that had little effect."""

    times: int
    quiet_until: datetime | None = None
    healthy: int = 0
    """Rounds without a cause since."""


@dataclass(frozen=True, slots=True)
class Memory:
    """What is remembered between rounds."""

    figures: Mapping[Pair, tuple[tuple[datetime, float], ...]] = field(default_factory=dict)
    """Of links, oldest first."""
    awaited: Mapping[Group, Awaited] = field(default_factory=dict)
    failed: Mapping[Group, Failed] = field(default_factory=dict)
    spare_since: Mapping[Group, datetime] = field(default_factory=dict)
    """Since when an operator would have done with a task less."""
    adapted: Mapping[str, tuple[datetime, ...]] = field(default_factory=dict)
    """It holds the last times, oldest first, at which a query was adapted."""

    def with_figures(self, capacity: Mapping[Pair, float], now: datetime, settings: Settings) -> Memory:
        """With what is known of links now, and without what is too old."""
        since = now - timedelta(seconds=settings.figures_s)
        found = {
            pair: (*(old for old in self.figures.get(pair, ()) if old[0] > since), (now, rate))
            for pair, rate in capacity.items()
        }
        return replace(self, figures=found)

    def of(self, queries: Collection[str]) -> Memory:
        """Without what is known of other queries' adaptations: those are over."""
        return replace(self, adapted={query: times for query, times in self.adapted.items() if query in queries})

    def planned_with(self, settings: Settings) -> Mapping[Pair, float]:
        """What is planned with of each link: a low quantile of its figures, or the last one, if that is less."""
        found = {}
        for pair, figures in self.figures.items():
            rates = sorted(rate for _, rate in figures)
            quantile = rates[max(0, math.ceil(settings.figures_quantile * len(rates)) - 1)]
            found[pair] = min(figures[-1][1], quantile)
        return found

    @property
    def under_way(self) -> tuple[Option, ...]:
        """The actions whose effect is awaited, each once."""
        found: list[Option] = []
        for one in self.awaited.values():
            if not any(one.option is option for option in found):
                found.append(one.option)
        return tuple(found)

    def quiet(self, group: Group, now: datetime) -> bool:
        """Whether an operator is left alone, because what was done had little effect."""
        until = self.failed[group].quiet_until if group in self.failed else None
        return until is not None and now < until

    def judged(self, findings: Collection[tuple[Group, Finding]], now: datetime, settings: Settings) -> Judged:
        """With the effects of actions that are due: the same cause with more than half of the deficit is a failure."""
        awaited, failed = dict(self.awaited), dict(self.failed)
        effects: dict[Group, bool] = {}
        causes = {group for group, _ in findings}
        for group, one in self.awaited.items():
            if now < one.due:
                continue
            del awaited[group]
            left = [f.deficit for g, f in findings if g == group and f.cause is one.cause]
            effects[group] = not (left and max(left) > one.deficit / 2)
            if not effects[group]:
                failed[group] = _again(failed.get(group, Failed(0)), now, settings)
        for group, seen in self.failed.items():
            if group in causes or group in effects:
                continue
            healthy = seen.healthy + 1
            if healthy >= settings.healthy:
                failed.pop(group)
            else:
                failed[group] = replace(seen, healthy=healthy)
        return Judged(replace(self, awaited=awaited, failed=failed), effects)

    def acted(self, option: Option, finding: Finding, now: datetime, settings: Settings) -> Memory:
        """With an action whose effect is awaited; its measurements are good once an interval lies behind it."""
        due = now + timedelta(seconds=option.adapt_s + 2 * settings.interval_s)
        one = Awaited(option, finding.cause, finding.deficit, due)
        groups = [change.group for change in option.changes]
        spare = {group: since for group, since in self.spare_since.items() if group not in groups}
        times = {query: (*self.adapted.get(query, ()), now)[-_TIMES:] for query in {query for query, _ in groups}}
        awaited = {**self.awaited, **dict.fromkeys(groups, one)}
        return replace(self, awaited=awaited, spare_since=spare, adapted={**self.adapted, **times})


@dataclass(frozen=True, slots=True)
class Judged:
    """The memory, once the effects of earlier actions are known."""

    memory: Memory
    effects: Mapping[Group, bool]
    """By operator, whether the action that was awaited had its effect."""


def _again(seen: Failed, now: datetime, settings: Settings) -> Failed:
    times = seen.times + 1
    if times < settings.fails:
        return Failed(times, seen.quiet_until)
    return Failed(times, now + timedelta(seconds=settings.quiet_s * 2 ** (times - settings.fails)))
