"""Finds where two channels of the same windows meet, so that readers of the one can go on with the other. Pure.

Two merges of the same inputs publish the same windows, in epochs that differ. Behind some epochs of a channel exactly
the windows are out that a watermark ends, and no others. Where the windows that are out of the one channel end where
those of such an epoch of the other do, its readers go on with the next epoch of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Said:
    """An epoch of the channel that is joined, as far as its manifest tells."""

    epoch: int
    watermark_us: int | None
    end_us: int | None
    """The end of the last window that the watermark ends; None: there is no watermark yet."""
    whole: bool
    """Behind it, exactly the windows are out that the watermark ends. The groups of windows that close together may lie
    in several epochs, of which only the last one is so."""


def meeting_epoch(said: Sequence[Said], end_us: int | None) -> int | None:
    """Return the epoch behind which the same windows are out; None: there is none yet.

    Args:
        said: epochs of the channel that is joined, in their order.
        end_us: the end of the last window that is out of the channel whose readers are to join; None: none is.
    """
    found = (one.epoch for one in reversed(said) if one.whole and end_us is not None and one.end_us == end_us)
    return next(found, None)


def next_meeting(said: Sequence[Said], end_us: int | None, upto_us: int) -> Said | None:
    """Return the last epoch behind which more windows are out than before, but none that end after `upto_us`.

    None: there is none. Who publishes the windows up to there next meets the channel.
    """
    found = (
        one
        for one in reversed(said)
        if one.whole and one.end_us is not None and one.end_us <= upto_us and (end_us is None or one.end_us > end_us)
    )
    return next(found, None)


def is_behind(said: Sequence[Said], end_us: int | None) -> bool:
    """Return whether windows that are out are still to come in the channel that is joined."""
    newest_us = said[-1].end_us if said else None
    return end_us is not None and (newest_us is None or newest_us < end_us)
