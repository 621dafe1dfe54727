"""Who reads a channel at this site.

The names survive a restart, so that the reader that comes back first cannot trim what another still needs.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from site_agent.base.files import Files, read_json, write_json

READERS_FILE = "readers.json"


@dataclass(frozen=True, slots=True)
class Reader:
    keeps: bool = False
    """The producer neither waits for this reader, nor retains epochs for it that are stored here."""
    cursor: int = 0
    """The next epoch that it has not acknowledged. Not stored: readers acknowledge again after a restart."""


@dataclass(frozen=True, slots=True)
class Readers:
    """The readers of one channel."""

    from_site: str
    query_id: str
    by_name: Mapping[str, Reader] = field(default_factory=dict)
    bins: tuple[int, ...] = ()
    """The bins of which the copy gets the rows now; empty: all rows."""
    narrower: tuple[tuple[int, tuple[int, ...]], ...] = ()
    """It lists the bins that the copy got before, oldest first, each set with the first epoch of which it got more."""
    told_end: bool = False
    """The copy has all that the channel will ever have, and the producer knows it: nothing is left to transfer."""

    def held_from(self, bins: Collection[int]) -> int | None:
        """The first epoch from which on the copy has the rows of these bins (none: all rows); None: it has not."""
        begin: int | None = None
        first = 0
        for until, had in (*self.narrower, (None, self.bins)):
            holds = not had or (bool(bins) and set(bins) <= set(had))
            begin = (first if begin is None else begin) if holds else None
            first = until if until is not None else first
        return begin

    def widened(self, bins: Collection[int], next_epoch: int) -> Readers:
        """The copy gets these bins, too, from that epoch on; of no bins: all rows."""
        wider = tuple(sorted({*self.bins, *bins})) if bins else ()
        return replace(self, bins=wider, narrower=(*self.narrower, (next_epoch, self.bins)))

    def joined(self, name: str, *, keeps: bool) -> Readers:
        return replace(self, by_name={**self.by_name, name: Reader(keeps)}) if name not in self.by_name else self

    def left(self, name: str) -> Readers:
        return replace(self, by_name={other: reader for other, reader in self.by_name.items() if other != name})

    def acknowledged(self, name: str, epoch: int) -> Readers:
        """Record an acknowledgement. Unknown readers and older epochs change nothing."""
        reader = self.by_name.get(name)
        if reader is None or epoch < reader.cursor:
            return self
        return replace(self, by_name={**self.by_name, name: replace(reader, cursor=epoch + 1)})

    def needed_here(self) -> int:
        """The first epoch that this site's copy must keep; without readers, 0."""
        return min((reader.cursor for reader in self.by_name.values()), default=0)

    @property
    def awaited(self) -> int | None:
        """The first epoch that a producer at this site must wait for; None: all readers keep what they take."""
        return min((reader.cursor for reader in self.by_name.values() if not reader.keeps), default=None)

    def needed_there(self, stored: int) -> int:
        """The first epoch that the producer must keep for this site, which has stored the epochs before `stored`."""
        return min((reader.cursor for reader in self.by_name.values() if not reader.keeps), default=stored)

    def ahead_there(self, stored: int) -> Mapping[str, int]:
        """Readers that are ahead of what this site needs of the producer, each with the first epoch that it needs."""
        needed = self.needed_there(stored)
        cursors = {name: stored if reader.keeps else reader.cursor for name, reader in self.by_name.items()}
        return {name: cursor for name, cursor in cursors.items() if cursor > needed}


def save_readers(files: Files, directory: Path, readers: Readers) -> None:
    value = {
        "from_site": readers.from_site,
        "query_id": readers.query_id,
        "readers": {name: reader.keeps for name, reader in readers.by_name.items()},
        "bins": list(readers.bins),
        "narrower": [[until, list(bins)] for until, bins in readers.narrower],
        "told_end": readers.told_end,
    }
    write_json(files, directory / READERS_FILE, value, durable=True)


def load_readers(directory: Path) -> Readers | None:
    """The readers stored in a channel's directory; None: nobody here reads the channel."""
    value: dict[str, Any] | None = read_json(directory / READERS_FILE)
    if value is None:
        return None
    by_name = {str(name): Reader(bool(keeps)) for name, keeps in value["readers"].items()}
    # An agent of an earlier version has written none: it copied whole channels.
    bins = tuple(map(int, value.get("bins", ())))
    narrower = tuple((int(until), tuple(map(int, had))) for until, had in value.get("narrower", ()))
    told_end = bool(value.get("told_end", False))
    return Readers(str(value["from_site"]), str(value["query_id"]), by_name, bins, narrower, told_end)
