"""Work at a site that gets no new work: whether it could be elsewhere, why it is there, and what ends it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from planner.handover.refusals import is_movable
from planner.values.stages import StageKind


class WorkKind(Enum):
    """Tasks by the kind of their stage; and what a site holds besides."""

    SOURCE = "source"
    COMBINE = "combine"
    TABLE = "table"
    MERGE = "merge"
    FINAL = "final"
    SINK = "sink"
    MAP = "map"
    REDUCE = "reduce"
    DERIVE = "derive"
    RESULTS = "results"
    """The results of a query, kept at the gateway."""
    STREAM = "stream"
    """The log of a stream that clients push to at the site."""
    LEASE = "lease"
    """A slot held by another framework than Selat's own."""


_STAGES = {WorkKind(kind.value): kind for kind in StageKind}

_ELSEWHERE = (WorkKind.REDUCE, WorkKind.LEASE)
"""They do not move, and could be elsewhere."""

_MOVES = "it moves to another site, where one has a slot for it, or ends with the queries that need it"

_REASONS = {
    WorkKind.SOURCE: "{subject} is bound here; it ends with the queries that need it",
    WorkKind.COMBINE: "it combines groups that are born here; it ends with the queries that need it",
    WorkKind.TABLE: "{subject} is bound here; it ends with its query",
    WorkKind.MAP: "its split of {subject} is here; it ends by itself",
    WorkKind.SINK: "{subject} is bound here; it ends with its query",
    WorkKind.REDUCE: "it could run elsewhere, but does not move; it ends by itself",
    WorkKind.RESULTS: "the gateway keeps them for clients; they go some time after the end of their query",
    WorkKind.STREAM: "clients push {subject} here; it ends when the stream is dropped",
    WorkKind.LEASE: "{holder} holds the slot; it ends when the lease is given back or expires",
}

_ENDED = "it has ended; its rows are read from here until its query is over"


@dataclass(frozen=True, slots=True)
class Work:
    """One thing that keeps a site from being empty."""

    kind: WorkKind
    query: str = ""
    task: str = ""
    subject: str = ""
    """The relation that is read, written or pushed to; or the slot."""
    holder: str = ""
    """The id of its lease."""
    ended: bool = False
    """A task of which only the output is left."""
    beside_source: bool = False
    """It reads a source of the site."""

    @property
    def movable(self) -> bool:
        """True when it could be at another site."""
        return not self.ended and (self.kind in _ELSEWHERE or self._moves)

    @property
    def reason(self) -> str:
        """The reason why it is here, and what ends it."""
        if self.ended:
            return _ENDED
        return _MOVES if self._moves else _REASONS[self.kind].format(subject=self.subject, holder=self.holder)

    @property
    def _moves(self) -> bool:
        return self.kind in _STAGES and is_movable(_STAGES[self.kind], beside_source=self.beside_source)
