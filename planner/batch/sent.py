"""How many bytes a link carries for each byte of a split: learned from splits that were sent."""

from __future__ import annotations

from collections import deque

from planner.batch.estimate import DEFAULT_RECORDS


class SentShares:
    """Of the last splits that were sent, by the computing model of their tasks; 1 until the first one was."""

    def __init__(self, records: int = DEFAULT_RECORDS) -> None:
        self._records = records
        self._shares: dict[str | None, deque[float]] = {}

    def add(self, model: str, *, size_bytes: int, sent_bytes: int) -> None:
        """A split of that size was sent; an empty one says nothing."""
        if size_bytes <= 0:
            return
        for key in (model, None):
            self._shares.setdefault(key, deque(maxlen=self._records)).append(sent_bytes / size_bytes)

    def share(self, model: str) -> float:
        """The mean of the last splits of the model; if there was none, of those of any."""
        shares = self._shares.get(model) or self._shares.get(None)
        return sum(shares) / len(shares) if shares else 1.0
