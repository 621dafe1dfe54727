"""Rows of two views that a MERGE pairs by their event times."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PairSide:
    """One of the two views whose rows a MERGE pairs, and what becomes of its rows beside pairs."""

    view: str
    keys: tuple[str, ...]
    """Its columns that are equal to those of the other side in rows that match."""
    unmatched: bool = False
    """Its rows without a match come out as well."""
    once: bool = False
    """Its rows with a match come out in the place of pairs, each once."""

    @property
    def keeps_matches(self) -> bool:
        """Return whether matches of a row are kept for as long as it waits."""
        return self.unmatched or self.once
