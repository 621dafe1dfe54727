"""The plan of a round: streams of three kinds, queries and their fate, batch queries, faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from tests.grammar.text import Both


class Kind(Enum):
    """The origin of a stream's rows."""

    FILES = "files"
    """The dataset's files, replayed from the start for each query that shares with none."""
    GENERATOR = "generator"
    """Rows computed at the sites, a fixed number of them."""
    PUSH = "push"
    """Rows that producers send, which fall silent and wake, and may die and begin again."""


@dataclass(frozen=True, slots=True)
class Nap:
    """A producer sends nothing for some beats."""

    site: str
    beat: int
    beats: int

    def covers(self, site: str, beat: int) -> bool:
        return self.site == site and self.beat <= beat < self.beat + self.beats


@dataclass(frozen=True, slots=True)
class Restart:
    """A producer dies before that beat, and begins again with its first batch."""

    site: str
    beat: int


@dataclass(frozen=True, slots=True)
class Move:
    """A task of a query is asked to go on at another site, or its merge in other parts."""

    after_s: float
    """The delay after submission."""
    place: float
    """It selects one of the tasks that can be moved, from 0 to 1."""
    site: str
    without_state: bool = False
    parts: int = 0
    """The merge is to have so many parts; 0: the task is to move."""
    alone: bool = False
    """It is one that the query shares, where it shares one, and the query gets one of its own."""


@dataclass(frozen=True, slots=True)
class Visit:
    """One query over one stream."""

    kind: Kind
    what: str
    """The family that it was drawn from."""
    query: Both
    """A query over the stream `orders`."""
    sharing: str
    start: str
    """The value of `sharing_start`."""
    at_s: float
    pause: tuple[float, float] | None = None
    """The delay after submission and the length of the pause, in seconds."""
    cancel_after_s: float | None = None
    sink_site: str | None = None
    """The site of its sink; None: a client reads its results."""
    parts: int = 1
    """The value of `merge_parallelism`."""
    moves: tuple[Move, ...] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """One query over tables."""

    query: Both
    scheduler: str
    at_s: float
    sink_site: str | None = None


class Break(Enum):
    """The kinds of faults of a process or a link."""

    KILL = "kill"
    FREEZE = "freeze"
    HOLD = "hold"
    REFUSE = "refuse"
    FULL = "full disk of"
    """No file of the process's can grow."""
    MEMORY = "no more memory for"
    """The process gets no more address space; it may end of that."""


@dataclass(frozen=True, slots=True)
class Fault:
    how: Break
    target: str
    """A process; for HOLD and REFUSE, the site to which the link leads."""
    after_s: float
    """The time since the end of the fault before it."""
    lasts_s: float

    def __str__(self) -> str:
        place = f"link to {self.target}" if self.how in (Break.HOLD, Break.REFUSE) else self.target
        return f"{self.how.value} {place}" + ("" if self.how is Break.KILL else f" {self.lasts_s:.0f} s")


class Step(NamedTuple):
    """An action on one query."""

    at_s: float
    number: int
    """Its place in `Plan.asked`."""
    what: str
    """`submit`, `pause`, `resume`, `cancel` or `move`."""
    move: Move | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that a seed decides. How the actions coincide depends on the machine, too."""

    seed: int
    visits: tuple[Visit, ...]
    batches: tuple[Batch, ...]
    faults: tuple[Fault, ...]
    naps: tuple[Nap, ...] = ()
    restarts: tuple[Restart, ...] = ()

    @property
    def asked(self) -> tuple[Visit | Batch, ...]:
        return (*self.visits, *self.batches)

    def steps(self) -> list[Step]:
        """The actions on all queries, in order of time."""
        steps = [step for number, asked in enumerate(self.asked) for step in _steps(number, asked)]
        return sorted(steps, key=lambda step: step.at_s)

    @property
    def kinds(self) -> frozenset[Kind]:
        return frozenset(visit.kind for visit in self.visits)

    def coverage(self) -> Counter[str]:
        """The number of times that each feature occurs in the plan."""
        return Counter(self._words())

    def _words(self) -> Iterator[str]:
        for visit in self.visits:
            yield from (f"{visit.kind.value} stream", f"sharing={visit.sharing}", visit.what)
            yield from _words(
                {
                    "next-window": visit.start != "history",
                    "late join": visit.at_s > 0,
                    "pause": visit.pause is not None,
                    "cancel": visit.cancel_after_s is not None,
                    "sink": visit.sink_site is not None,
                    "merge in parts": visit.parts > 1,
                }
            )
        for batch in self.batches:
            yield f"batch {batch.scheduler}"
            yield from _words({"batch sink": batch.sink_site is not None})
        yield from ("nap" for _ in self.naps)
        yield from ("producer restart" for _ in self.restarts)


def _words(words: dict[str, bool]) -> Iterator[str]:
    return (word for word, said in words.items() if said)


def _steps(number: int, asked: Visit | Batch) -> Iterator[Step]:
    yield Step(asked.at_s, number, "submit")
    if isinstance(asked, Batch):
        return
    if asked.pause is not None:
        begin_s = asked.at_s + asked.pause[0]
        yield Step(begin_s, number, "pause")
        yield Step(begin_s + asked.pause[1], number, "resume")
    yield from (Step(asked.at_s + move.after_s, number, "move", move) for move in asked.moves)
    if asked.cancel_after_s is not None:
        yield Step(asked.at_s + asked.cancel_after_s, number, "cancel")
