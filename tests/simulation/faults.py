"""What happens to a world beside the rows: values that can be printed, changed and played again."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kill:
    """A process ends, and a new one begins on its machine."""

    at_s: float
    name: str
    away_s: float
    power: bool = False
    """The machine loses its power."""


@dataclass(frozen=True, slots=True)
class KillAtPoint:
    """A process ends at a passage of one of the product's named points."""

    name: str
    point: str
    passage: int
    away_s: float
    power: bool = False


@dataclass(frozen=True, slots=True)
class Cut:
    """The connections between two machines are reset."""

    at_s: float
    one: str
    other: str


@dataclass(frozen=True, slots=True)
class Break:
    """A connection is reset with the n-th message that one machine sends to another: it is lost, and all under way."""

    source: str
    target: str
    message: int


@dataclass(frozen=True, slots=True)
class Silence:
    """Nothing that one machine sends arrives at the other."""

    at_s: float
    source: str
    target: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Full:
    """A site's disk takes nothing."""

    at_s: float
    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Failing:
    """Some of a site's writes and syncs fail."""

    at_s: float
    name: str
    seconds: float
    share: float


@dataclass(frozen=True, slots=True)
class Damage:
    """A byte of an epoch's file changes on a site's disk, and nobody is told."""

    at_s: float
    name: str


@dataclass(frozen=True, slots=True)
class Slow:
    """A machine's threads, so its disk and its Spark, take longer."""

    at_s: float
    name: str
    seconds: float
    most_s: float


@dataclass(frozen=True, slots=True)
class SetClock:
    """A machine's clock is set: so far ahead of the right time it is from then on."""

    at_s: float
    name: str
    ahead_s: float


@dataclass(frozen=True, slots=True)
class Leave:
    """The client drops its connections, and comes back with its cursors."""

    at_s: float


@dataclass(frozen=True, slots=True)
class Pause:
    """The client pauses a query, and resumes it."""

    at_s: float
    query: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Cancel:
    """The client cancels a query."""

    at_s: float
    query: str


@dataclass(frozen=True, slots=True)
class Declare:
    """The client declares a stream and a view of it, and drops them after a while."""

    at_s: float
    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Lease:
    """A framework beside Selat asks for a slot, and gives it back after half of the time, or lets it run out."""

    at_s: float
    framework: str
    site: str
    index: int
    seconds: float
    gives_back: bool


@dataclass(frozen=True, slots=True)
class Move:
    """The client has one of a query's tasks move to a site."""

    at_s: float
    query: str
    place: float
    """It selects one of those that can be moved, from 0 to 1."""
    site: str
    called_off_s: float | None = None
    """The client calls the move off after so long; None: it does not."""
    without_state: bool = False
    alone: bool = False
    """It is one of those that the query shares, and the query gets one of its own."""
    together: bool = False
    """It is one that the query got so, and gives up again."""


@dataclass(frozen=True, slots=True)
class Scale:
    """The client has one of a query's merges go on in another number of parts."""

    at_s: float
    query: str
    place: float
    """It selects one of the merges, from 0 to 1."""
    parts: int
    sites: tuple[str, ...]
    called_off_s: float | None = None
    """The client calls it off after so long; None: it does not."""


@dataclass(frozen=True, slots=True)
class Combine:
    """The client has the sites of a query combine in another way."""

    at_s: float
    query: str
    tree: str
    """Over which sites groups go, as `SET combine_tree` has it."""
    called_off_s: float | None = None
    """The client calls it off after so long; None: it does not."""


Order = Pause | Cancel | Declare | Lease | Move | Scale | Combine
"""What clients ask of the master beside results."""
Fault = Kill | KillAtPoint | Cut | Break | Silence | Full | Failing | Damage | Slow | SetClock | Leave | Order
"""What happens beside the rows."""


def over_s(fault: Fault) -> float:
    """When it is over; 0 for one whose time nobody knows before."""
    match fault:
        case KillAtPoint() | Break():
            return 0.0
        case Kill():
            return fault.at_s + fault.away_s
        case Silence() | Full() | Failing() | Slow() | Pause() | Declare() | Lease():
            return fault.at_s + fault.seconds
        case _:
            return fault.at_s
