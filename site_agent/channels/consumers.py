"""Which consumers still need which epochs of a channel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Consumers:
    """Retention of one channel: epochs before `first_epoch` are not kept; a consumer needs the epochs from its cursor
    on."""

    first_epoch: int = 0
    cursors: Mapping[str, int] = field(default_factory=dict)
    """The next epoch that each consumer has not acknowledged."""
    past_end: frozenset[str] = frozenset()
    """Consumers that have every epoch of a channel that has ended, and know that it has."""

    def named(self, names: Iterable[str]) -> Consumers:
        """With exactly these consumers; a new one needs every epoch that is kept."""
        cursors = {name: self.cursors.get(name, self.first_epoch) for name in sorted(set(names))}
        return replace(self, cursors=cursors, past_end=self.past_end & cursors.keys()).advanced()

    def renewed(self, name: str) -> Consumers:
        """`name` needs every epoch that is kept, whatever it has acknowledged. Unknown names change nothing."""
        if name not in self.cursors:
            return self
        return replace(self, cursors={**self.cursors, name: self.first_epoch}, past_end=self.past_end - {name})

    def passed_end(self, name: str) -> Consumers:
        """`name` has all that the channel will ever have. Unknown names change nothing."""
        return replace(self, past_end=self.past_end | {name}) if name in self.cursors else self

    def acknowledge(self, name: str, epoch: int) -> Consumers:
        """`name` does not need the epochs up to and including `epoch`. Unknown names and older epochs change
        nothing."""
        if epoch < self.cursors.get(name, epoch + 1):
            return self
        return replace(self, cursors={**self.cursors, name: epoch + 1}).advanced()

    def advanced(self) -> Consumers:
        """Drop the epochs that no consumer needs. Without consumers all are kept: they may not have been named yet."""
        if not self.cursors:
            return self
        return replace(self, first_epoch=max(self.first_epoch, min(self.cursors.values())))

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {"first_epoch": self.first_epoch, "cursors": dict(self.cursors)}
        return {**value, "past_end": sorted(self.past_end)} if self.past_end else value

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Consumers:
        """The value that `to_json` wrote. Raises KeyError, TypeError or ValueError when it is not one."""
        cursors = {str(name): int(epoch) for name, epoch in value["cursors"].items()}
        return Consumers(int(value["first_epoch"]), cursors, frozenset(map(str, value.get("past_end", ()))))
