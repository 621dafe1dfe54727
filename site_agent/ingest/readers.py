"""Who reads a push log, and how far each one's committed epochs go."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True)
class Readers:
    """Positions are kept in memory only: after a restart a reader holds everything until it has said where it is."""

    _positions: dict[str, int | None] = field(default_factory=dict)

    def set_names(self, names: Iterable[str]) -> bool:
        """Exactly these; whether that is a change."""
        wanted = {name: self._positions.get(name) for name in names}
        changed = wanted.keys() != self._positions.keys()
        self._positions = wanted
        return changed

    def advance(self, name: str, record: int) -> bool:
        """`name` has passed everything before this record; whether that is news. An unknown name says nothing."""
        if name not in self._positions or ((known := self._positions[name]) is not None and known >= record):
            return False
        self._positions[name] = record
        return True

    def passed(self, next_record: int) -> int:
        """Every reader has passed everything before this record; without readers that is all there is."""
        return min((p or 0 for p in self._positions.values()), default=next_record)

    def slowest(self) -> tuple[str, ...]:
        """Those who are farthest behind."""
        least = min((p or 0 for p in self._positions.values()), default=0)
        return tuple(sorted(name for name, p in self._positions.items() if (p or 0) == least))
