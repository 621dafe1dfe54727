"""The outcome of a run of the demo."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from selat.demo.progress import LinkBytes


@dataclass(frozen=True, slots=True)
class QueryOutcome:
    """The outcome of one query."""

    name: str
    rows: int
    seconds: float
    """From its submission to its last result."""
    difference: str
    """How its result differs from the oracle's, in words; empty: it does not."""

    @property
    def matches_oracle(self) -> bool:
        return not self.difference


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of the run. Times are in seconds since the demo was started."""

    queries: tuple[QueryOutcome, ...]
    links: tuple[LinkBytes, ...]
    """The traffic of each link between two sites, of all queries together."""
    raw_bytes: Mapping[str, int]
    """The bytes that each site would have sent to the hub if it had sent its rows as zstd-compressed CSV."""
    seconds_to_first_result: float
    seconds: float

    @property
    def wan_bytes(self) -> int:
        return sum(link.bytes for link in self.links)

    @property
    def all_raw_bytes(self) -> int:
        return sum(self.raw_bytes.values())

    @property
    def proven(self) -> bool:
        """Whether every result equals the oracle's."""
        return all(query.matches_oracle for query in self.queries)

    def as_object(self) -> dict[str, Any]:
        """For programs."""
        return {
            "queries": [
                {
                    "name": query.name,
                    "rows": query.rows,
                    "seconds": round(query.seconds, 3),
                    "matches_oracle": query.matches_oracle,
                }
                for query in self.queries
            ],
            "links": [{"from": link.from_site, "to": link.to_site, "bytes": link.bytes} for link in self.links],
            "raw_bytes": self.all_raw_bytes,
            "wan_bytes": self.wan_bytes,
            "seconds_to_first_result": round(self.seconds_to_first_result, 3),
            "seconds": round(self.seconds, 3),
        }
