"""Records what a merge has published, as the last epoch of its channel says, and what one epoch emitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from site_agent.channels.manifest import EpochManifest
from site_agent.engine import EpochResult, OperatorRows
from site_agent.tasks.checkpoint import Closing
from site_agent.tasks.progress import Totals

CLOSING = "closing"
"""In the commit of an epoch with a range of the groups of closed windows, it names the windows and the bins so far."""


@dataclass(frozen=True, slots=True)
class Emitted:
    """Holds what the last published epoch says: windows up to `closed_us` are out, from input before `cursors`."""

    closed_us: int | None = None
    cursors: Mapping[str, int] = field(default_factory=dict)
    totals: Totals = field(default_factory=Totals)

    @classmethod
    def from_manifest(cls, manifest: EpochManifest | None) -> Emitted:
        if manifest is None:
            return cls()
        cursors = manifest.commit.get("cursors")
        return cls(
            manifest.watermark_us,
            {k: v for k, v in cursors.items() if isinstance(v, int)} if isinstance(cursors, Mapping) else {},
            Totals.from_json(manifest.commit.get("totals")),
        )


@dataclass(frozen=True, slots=True)
class Emission:
    """Describes the output of the windows that an epoch closed."""

    rows: int = 0
    size_bytes: int = 0
    operators: tuple[OperatorRows, ...] = ()
    computed: bool = False
    """It is true when Spark computed the output: there were rows."""

    def with_range(self, rows: int, size_bytes: int, result: EpochResult | None) -> Emission:
        """Return this with the output of one more range of the windows' groups added."""
        operators = result.operators if result is not None else ()
        return self.plus(Emission(rows, size_bytes, operators, result is not None))

    def plus(self, other: Emission) -> Emission:
        """Return this with the output of another step added."""
        return Emission(
            self.rows + other.rows,
            self.size_bytes + other.size_bytes,
            _added(self.operators, other.operators),
            self.computed or other.computed,
        )


def age(totals: Totals) -> tuple[int, int, int]:
    """Return a key that compares two records of one task: the later has the greater."""
    return totals.rows_in, totals.rows_out, totals.bytes_out


def bins_done(last: EpochManifest | None, closing: Closing) -> int:
    """Up to which bin the windows that are being closed are out."""
    said = last.commit.get(CLOSING) if last is not None else None
    if not isinstance(said, Mapping) or said.get("watermark_us") != closing.watermark_us:
        return 0
    return int(str(said.get("bins_done", 0)))


def _added(some: Sequence[OperatorRows], others: Sequence[OperatorRows]) -> tuple[OperatorRows, ...]:
    """The rows of the same operators of a statement that ran twice, together."""
    if len(some) != len(others):
        return tuple(others or some)
    return tuple(replace(one, rows=one.rows + other.rows) for one, other in zip(some, others, strict=True))
