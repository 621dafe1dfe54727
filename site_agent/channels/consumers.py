"""Who still needs which epochs of a channel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any


@dataclass(frozen=True, slots=True)
class Consumers:
    """Retention of one channel: nothing before `first_epoch` is kept, a consumer needs what follows its cursor."""

    first_epoch: int = 0
    cursors: Mapping[str, int] = field(default_factory=dict)
    """The next epoch that each consumer has not acknowledged."""

    def named(self, names: Iterable[str]) -> Consumers:
        """Exactly these consumers; a new one needs everything that is kept."""
        cursors = {name: self.cursors.get(name, self.first_epoch) for name in sorted(set(names))}
        return replace(self, cursors=cursors).advanced()

    def acknowledge(self, name: str, epoch: int) -> Consumers:
        """`name` needs nothing up to and with `epoch`. Unknown names and older epochs change nothing."""
        if epoch < self.cursors.get(name, epoch + 1):
            return self
        return replace(self, cursors={**self.cursors, name: epoch + 1}).advanced()

    def advanced(self) -> Consumers:
        """Give up what no consumer needs. Without consumers everything is kept: they may not have been named yet."""
        if not self.cursors:
            return self
        return replace(self, first_epoch=max(self.first_epoch, min(self.cursors.values())))

    def to_json(self) -> dict[str, Any]:
        return {"first_epoch": self.first_epoch, "cursors": dict(self.cursors)}

    @staticmethod
    def from_json(value: Mapping[str, Any]) -> Consumers:
        """Raises KeyError, TypeError or ValueError when it is not what `to_json` made."""
        cursors = {str(name): int(epoch) for name, epoch in value["cursors"].items()}
        return Consumers(int(value["first_epoch"]), cursors)
