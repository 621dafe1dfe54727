"""How far each producer has pushed: the state that makes pushes idempotent."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

PRODUCER_MEMORY = timedelta(days=7)
"""A producer that has been silent for this long may be forgotten: it must begin at sequence 1 again."""

_MICROSECOND = timedelta(microseconds=1)


@dataclass(slots=True)
class Producers:
    """The last durable sequence of each producer, and when it was pushed."""

    _last: dict[str, tuple[int, int]] = field(default_factory=dict)

    def last_sequence(self, producer: str) -> int:
        """The producer's last durable sequence; 0: it is not known."""
        return self._last.get(producer, (0, 0))[0]

    @property
    def newest_us(self) -> int:
        """The instant of the newest push; 0: there was none."""
        return max((at_us for _, at_us in self._last.values()), default=0)

    def note(self, producer: str, sequence: int, at_us: int) -> None:
        self._last[producer] = (sequence, at_us)

    def note_all(self, noted: Iterable[tuple[str, int, int]]) -> None:
        for producer, sequence, at_us in noted:
            self.note(producer, sequence, at_us)

    def forget_silent(self, now_us: int) -> None:
        """Drop the producers that have been silent for PRODUCER_MEMORY."""
        oldest_us = now_us - PRODUCER_MEMORY // _MICROSECOND
        self._last = {name: known for name, known in self._last.items() if known[1] >= oldest_us}

    def to_json(self) -> dict[str, list[int]]:
        return {name: [sequence, at_us] for name, (sequence, at_us) in sorted(self._last.items())}

    @staticmethod
    def from_json(value: Mapping[str, list[int]]) -> Producers:
        """The value that `to_json` wrote. Raises ValueError or TypeError when it is not one."""
        return Producers({str(name): (int(sequence), int(at_us)) for name, (sequence, at_us) in value.items()})
