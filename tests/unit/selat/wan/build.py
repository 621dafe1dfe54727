"""Layouts, links and a machine that only takes notes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from selat.wan.layout import Layout
from selat.wan.links import LinkState, Pair
from selat.wan.system import Batch

SITES = ("us", "eu", "asia")
LAYOUT = Layout("lab", 3, SITES, "us")
LINK = LinkState(2_500_000.0, timedelta(milliseconds=40))
LINKS: dict[Pair, LinkState] = {(a, b): LINK for a in SITES for b in SITES if a != b}


@dataclass(slots=True)
class NotedSystem:
    """A `System` that does nothing."""

    batches: list[Batch] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)

    def apply(self, batches: Iterable[Batch]) -> None:
        self.batches += batches

    def output(self, command: Sequence[str]) -> str:
        return self.answers.get(" ".join(command), "")
