"""Who reads a push log, and how far each reader's committed epochs go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Readers:
    """Positions are in memory only: after a restart a reader retains everything until it advances."""

    _positions: dict[str, int | None] = field(default_factory=dict)

    def set_names(self, names: Iterable[str]) -> bool:
        """Set the readers' names; returns whether they changed."""
        wanted = {name: self._positions.get(name) for name in names}
        changed = wanted.keys() != self._positions.keys()
        self._positions = wanted
        return changed

    def advance(self, name: str, record: int) -> bool:
        """`name` has passed the records before this one; returns whether that is new. Unknown names change nothing."""
        if name not in self._positions or ((known := self._positions[name]) is not None and known >= record):
            return False
        self._positions[name] = record
        return True

    def passed(self, next_record: int) -> int:
        """The first record that some reader has not passed; without readers, the end of the log."""
        return min((p or 0 for p in self._positions.values()), default=next_record)

    def slowest(self) -> tuple[str, ...]:
        """The readers that are farthest behind."""
        least = min((p or 0 for p in self._positions.values()), default=0)
        return tuple(sorted(name for name, p in self._positions.items() if (p or 0) == least))
