"""Draws from a seed which handover there is, what goes wrong in its middle, and when rows come."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from random import Random

from tests.soak.plan import Break


class Kind(Enum):
    """The kinds of handovers."""

    SHIPPED = "shipped"
    """A merge moves with its state."""
    LATE = "late"
    """A merge moves without its state."""
    FINAL = "final"
    """A task that needs the groups of all parts moves."""
    SPLIT = "split"
    """A merge in two parts goes on in four."""
    JOIN = "join"
    """A merge in two parts goes on in one."""
    DERIVE = "derive"
    """A task that makes its rows of another query's moves."""
    SHARED = "shared"
    """A merge that two queries share moves."""
    ALONE = "alone"
    """One of two queries that share a merge goes on with one of its own."""
    SWAP = "swap"
    """Other tasks combine what a merge reads, over a site between."""
    TOGETHER = "together"
    """A query with a merge of its own shares that of another query again."""

    @property
    def has_seed(self) -> bool:
        """Return whether a checkpoint is sent."""
        return self in (Kind.SHIPPED, Kind.FINAL, Kind.SHARED)

    @property
    def needs_rows(self) -> bool:
        """Return whether it waits for windows to close."""
        return self in (Kind.LATE, Kind.SPLIT, Kind.JOIN, Kind.ALONE, Kind.SWAP)


class Role(Enum):
    """The part of a site, or of the master, in a handover."""

    MASTER = "master"
    OLD = "old"
    NEW = "new"
    READER = "reader"
    SOURCE = "source"


@dataclass(frozen=True, slots=True)
class Fault:
    roles: tuple[Role, ...] = ()
    """Of whom it strikes; none: there is no fault."""
    how: Break | None = None
    """None: the process kills itself at a point. One that is frozen is as in a long Spark job."""
    point: str = ""
    passages: int = 1
    """The most passages of the point, of which one is drawn."""
    of_seeds: bool = False
    """It can only strike where a checkpoint is sent."""

    def __str__(self) -> str:
        who = " and ".join(role.value for role in self.roles) or "none"
        if self.point:
            return f"{who} dies at {self.point}"
        return who if self.how is None else f"{self.how.value} {who}"


def _dies(role: Role, point: str, passages: int = 1, *, of_seeds: bool = False) -> Fault:
    return Fault((role,), None, point, passages, of_seeds)


FAULTS = (
    Fault(),
    _dies(Role.MASTER, "handover-stored", 5),
    _dies(Role.MASTER, "versions-stored", 5),
    _dies(Role.MASTER, "assignment-sent", 8),
    _dies(Role.OLD, "seed-written", of_seeds=True),
    _dies(Role.OLD, "seed-stored", of_seeds=True),
    _dies(Role.OLD, "cut-stored"),
    _dies(Role.OLD, "inputs-released"),
    _dies(Role.NEW, "assignment-stored", 3),
    _dies(Role.NEW, "seed-restored", of_seeds=True),
    _dies(Role.NEW, "takeover-marked"),
    _dies(Role.NEW, "channel-begun"),
    _dies(Role.READER, "copy-stored", 8),
    _dies(Role.SOURCE, "ack-taken", 8),
    Fault((Role.OLD, Role.NEW), Break.KILL),
    Fault((Role.MASTER, Role.OLD), Break.KILL),
    Fault((Role.MASTER, Role.NEW), Break.KILL),
    Fault((Role.OLD,), Break.HOLD),
    Fault((Role.NEW,), Break.HOLD),
    Fault((Role.OLD,), Break.REFUSE),
    Fault((Role.NEW,), Break.REFUSE),
    Fault((Role.OLD,), Break.FREEZE),
    Fault((Role.NEW,), Break.FREEZE),
)


class Rows(Enum):
    """When rows come."""

    ALL_THE_TIME = "all the time"
    NONE = "none until it is over"
    LATER = "none until the fault is over"


@dataclass(frozen=True, slots=True)
class Plan:
    seed: int
    kind: Kind
    fault: Fault
    rows: Rows
    passage: int
    after_s: float
    """Faults that are no points strike so long after the handover was asked for."""
    lasts_s: float


SHORTAGES = (
    Fault((Role.OLD,), Break.FULL),
    Fault((Role.NEW,), Break.FULL),
    Fault((Role.NEW,), Break.MEMORY),
)
_FIRST = tuple(kind for kind in Kind if kind not in (Kind.SWAP, Kind.TOGETHER))
_LAST = (Kind.TOGETHER,)
PAIRS = tuple(
    (kind, fault)
    # Later kinds and faults are behind the rest: the seeds of what was played before stay what they were.
    for kinds, faults in (
        (_FIRST, FAULTS),
        ((Kind.SWAP,), FAULTS),
        ((*_FIRST, Kind.SWAP), SHORTAGES),
        (_LAST, (*FAULTS, *SHORTAGES)),
    )
    for fault in faults
    for kind in kinds
    if kind.has_seed or not fault.of_seeds
)
"""All that can come together. As many seeds in a row have each pair once."""
TAKE_OVER = ("takeover-marked", "channel-begun")
"""The points of a task that takes over."""


def draw(seed: int) -> Plan:
    """Return the plan of a seed."""
    random = Random(f"{seed}/handover")
    kind, fault = PAIRS[seed % len(PAIRS)]
    rows = random.choice((Rows.ALL_THE_TIME, Rows.LATER) if kind.needs_rows else tuple(Rows))
    passage = random.randint(1, fault.passages)
    return Plan(seed, kind, fault, rows, passage, random.uniform(0.0, 4.0), random.uniform(2.0, 8.0))
