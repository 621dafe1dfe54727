"""Options of a batch query: how its tasks are cut and placed."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

DEFAULT_SPLIT_BYTES = 64_000_000
DEFAULT_LOCALITY_MIN = 0.5


class Policy(Enum):
    """How tasks are placed."""

    LEASE = "lease-aware"
    FIRST_COME = "first-come"
    RANDOM = "random"
    LOCAL = "local"


class KeyFilters(Enum):
    """Which filters by the keys of another table a query that runs whole has, of those that are safe."""

    TIME = "time"
    """Those that save more time on links than they take."""
    BYTES = "bytes"
    """Those that save bytes."""
    ALWAYS = "always"
    NEVER = "never"


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """They hold for the whole life of the query."""

    scheduler: Policy = Policy.LEASE
    split_bytes: int = DEFAULT_SPLIT_BYTES
    """About so much of a table is one task's."""
    locality_min: float = DEFAULT_LOCALITY_MIN
    """Share of its tasks, 0 to 1, that have to start near their input, else it is skipped for a while."""
    key_filters: KeyFilters = KeyFilters.TIME
    reuse: bool = False
    """Rows that other queries had made or sent are taken again where they are the same."""
