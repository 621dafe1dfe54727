"""Criteria for measured figures, and the verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum


class Direction(Enum):
    """The side of the wanted figure on which a measured one has to lie."""

    AT_LEAST = "at least"
    AT_MOST = "at most"


@dataclass(frozen=True, slots=True)
class Criterion:
    """A wanted figure."""

    key: str
    """`SECTION.FIGURE`: the section that measures it, and a word for the figure."""
    name: str
    direction: Direction
    wanted: float
    unit: str = ""
    """Printed after a blank; empty for a ratio."""
    source: str = ""
    """The part of the system with which the criterion was set."""
    was: str = ""
    """Its former wording and the reason for the change; empty when it never changed."""

    @property
    def section(self) -> str:
        return self.key.partition(".")[0]

    def shown(self, value: float) -> str:
        number = f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
        return f"{number} {self.unit}".rstrip()


@dataclass(frozen=True, slots=True)
class Finding:
    """A measured figure. A note says why there is no verdict on it, or no figure at all."""

    value: float | None
    note: str = ""

    def verdict(self, criterion: Criterion) -> str:
        """`reached`, `missed` with the shortfall as a share of the wanted figure, or `no verdict` with the reason."""
        if self.note or self.value is None:
            return f"**no verdict**: {self.note or 'not measured'}"
        off = (self.value - criterion.wanted) / criterion.wanted
        short = -off if criterion.direction is Direction.AT_LEAST else off
        # A miss that rounds to nothing is a miss.
        return "reached" if short <= 0 else f"**missed** by {max(short, 0.001):.1%}"


NOT_MEASURED = Finding(None)


def verdicts(criteria: Iterable[Criterion], findings: Mapping[str, Finding]) -> str:
    """A Markdown table of all criteria, measured or not; below it the criteria that changed, and why."""
    lines = ["| criterion | wanted | measured | verdict | set with |", "| --- | ---: | ---: | --- | --- |"]
    changed = []
    for criterion in criteria:
        finding = findings.get(criterion.key, NOT_MEASURED)
        measured = "" if finding.value is None else criterion.shown(finding.value)
        wanted = f"{criterion.direction.value} {criterion.shown(criterion.wanted)}"
        cells = [criterion.name, wanted, measured, finding.verdict(criterion), criterion.source]
        lines.append("| " + " | ".join(cells) + " |")
        if criterion.was:
            changed.append(f"- {criterion.name}: {criterion.was}")
    return "\n".join([*lines, *(["", "Criteria that changed:", "", *changed] if changed else [])])


def findings_from(data: Mapping[str, Iterable[float | str | None]]) -> dict[str, Finding]:
    """The findings that `findings_to` turned into JSON."""
    found = {}
    for key, (value, note) in data.items():
        found[key] = Finding(value if isinstance(value, int | float) else None, str(note))
    return found


def findings_to(findings: Mapping[str, Finding]) -> dict[str, list[float | str | None]]:
    """The findings as JSON."""
    return {key: [finding.value, finding.note] for key, finding in findings.items()}
