"""What a channel says about an epoch besides its rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from site_agent.base.json import Json

END_OF_TIME_US = 2**63 - 1
"""Watermark of a channel that ended for good."""


@dataclass(frozen=True, slots=True)
class BinRange:
    """The rows of one bin; an epoch's rows are grouped by bin."""

    bin: int
    first_row: int
    rows: int


@dataclass(frozen=True, slots=True)
class Standing:
    """The watermark and idleness that a channel last published: they hold until an epoch changes them."""

    next_epoch: int
    """The standing is the one before this epoch."""
    watermark_us: int | None = None
    idle: bool = False
    whole: bool = False
    """As in the manifest."""


@dataclass(frozen=True, slots=True)
class EpochManifest:
    """An epoch's description. Two manifests with equal `crc32` and `rows` describe the same payload."""

    epoch: int
    rows: int
    size_bytes: int
    """Of the payload as stored and sent; 0 when there are no rows."""
    crc32: int
    """Of the payload; 0 when there are no rows."""
    watermark_us: int | None
    """Later epochs hold no row with an earlier event time."""
    idle: bool
    """The producer has had no input for a while: readers do not wait for its watermark until an epoch ends the
    idleness."""
    bins: tuple[BinRange, ...]
    commit: Mapping[str, Json] = field(default_factory=dict)
    """The producer's own record (input offsets, totals); never sent to other sites."""
    raw_bytes: int = 0
    """Length of the payload when decompressed."""
    whole: bool = False
    """In the channel of a merge: with this epoch all rows are out of the windows that the watermark ends, and none of
    others. False: it is not so, or not known."""

    @property
    def standing(self) -> Standing:
        """The channel's standing after this epoch."""
        return Standing(self.epoch + 1, self.watermark_us, self.idle, self.whole)


@dataclass(frozen=True, slots=True)
class Fork:
    """The readers of one query go on in another channel than all others."""

    query_id: str
    channel: str
    site: str


LateEpochs = Mapping[str, Mapping[str, int]]
"""The watermark at which rows of an epoch were late, by channel and epoch."""


@dataclass(frozen=True, slots=True)
class EndMark:
    """The channel has no epoch after `last_epoch`, which is None when it never had one."""

    last_epoch: int | None
    successor_channel: str = ""
    """The channel in which its rows continue; empty: the channel ended for good."""
    successor_site: str = ""
    closed_us: int | None = None
    """With a successor, windows that end by then are out, and the successor emits those that end later."""
    cursors: Mapping[str, int] = field(default_factory=dict)
    """With a successor, it holds by input the next epoch, which the task did not take."""
    rows_late: int = 0
    """It counts how many of the rows that the task took were late."""
    totals: Mapping[str, int] = field(default_factory=dict)
    """With a successor that gets no checkpoint, it holds the task's counts by name."""
    fork: Fork | None = None
    """With a successor, it names the query that has another one."""
    dropped: LateEpochs = field(default_factory=dict)
    """With a successor that computes sessions, it holds what was late since the checkpoint that it begins with."""

    def for_query(self, query_id: str) -> EndMark:
        """Return the mark as the readers of a query go by it, whose successor is theirs."""
        fork = self.fork
        if fork is None or fork.query_id != query_id:
            return self
        return replace(self, successor_channel=fork.channel, successor_site=fork.site, fork=None)

    @property
    def next_epoch(self) -> int:
        """The first epoch of the channel that continues this one."""
        return 0 if self.last_epoch is None else self.last_epoch + 1


def manifest_to_json(manifest: EpochManifest) -> dict[str, Any]:
    return {
        "epoch": manifest.epoch,
        "rows": manifest.rows,
        "size_bytes": manifest.size_bytes,
        "raw_bytes": manifest.raw_bytes,
        "crc32": manifest.crc32,
        "watermark_us": manifest.watermark_us,
        "idle": manifest.idle,
        "bins": [[b.bin, b.first_row, b.rows] for b in manifest.bins],
        "commit": dict(manifest.commit),
        **({"whole": True} if manifest.whole else {}),
    }


def manifest_from_json(value: Mapping[str, Any]) -> EpochManifest:
    """The manifest that `manifest_to_json` wrote. Raises KeyError, TypeError or ValueError when it is not one."""
    return EpochManifest(
        epoch=int(value["epoch"]),
        rows=int(value["rows"]),
        size_bytes=int(value["size_bytes"]),
        crc32=int(value["crc32"]),
        watermark_us=None if value["watermark_us"] is None else int(value["watermark_us"]),
        idle=bool(value["idle"]),
        bins=tuple(BinRange(*map(int, item)) for item in value["bins"]),
        commit=dict(value["commit"]),
        raw_bytes=int(value["raw_bytes"]),
        whole=bool(value.get("whole", False)),
    )


def select_bins(ranges: Sequence[BinRange], bins: Sequence[int]) -> tuple[BinRange, ...]:
    """The ranges of these bins, in order, numbered without the rows of other bins."""
    wanted, chosen, first_row = frozenset(bins), [], 0
    for item in ranges:
        if item.bin in wanted:
            chosen.append(BinRange(item.bin, first_row, item.rows))
            first_row += item.rows
    return tuple(chosen)
