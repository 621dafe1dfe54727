"""What combining tasks of earlier versions left: all groups left when their window closed, or the input fell idle."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from site_agent.base.json import Json
from site_agent.channels.manifest import EpochManifest
from site_agent.tasks.checkpoint import Checkpoint

_RELEASED = "released"
"""In their manifests: how far the input was read when it fell idle. What they left is restored by their rules."""


def is_of_older(checkpoint: Checkpoint, last: EpochManifest) -> bool:
    """Whether an earlier version left this, and none since has stored a checkpoint."""
    return _RELEASED in last.commit and checkpoint.out is None


def closed_by_older(checkpoint: Checkpoint, last: EpochManifest) -> int | None:
    """The watermark up to which windows have left."""
    return max((c for c in (checkpoint.closed_us, last.watermark_us) if c is not None), default=None)


def rows_by_older(
    checkpoint: Checkpoint, last: EpochManifest, rows: pa.Table | None
) -> tuple[Mapping[str, int], pa.Table | None]:
    """Return how far the input was read when it last fell idle, and those of the checkpoint's rows that are held."""
    released, saved = cursors_of(last.commit.get(_RELEASED)), checkpoint.cursors
    # All rows were released at once: the checkpoint is older, or it has been saved since.
    older = bool(released) and all(saved[name] <= released.get(name, 0) for name in saved)
    return released, None if older else rows


def cursors_of(value: Json) -> dict[str, int]:
    """The cursors in a manifest, by channel."""
    return {k: v for k, v in value.items() if isinstance(v, int)} if isinstance(value, Mapping) else {}
