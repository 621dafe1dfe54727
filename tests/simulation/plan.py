"""What one schedule does, drawn from its seed: a value that can be printed, changed and played again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from random import Random

from master.base.faults import FaultPoint as MasterPoint
from planner.sharing.modes import Sharing
from site_agent.base.faults import FaultPoint as AgentPoint
from tests.simulation.workload import QUERIES, last_row_s

MASTER = "master"
SITES = ("us", "eu", "asia")

FIRST_FAULT_S = 1.0
_ROWS = (60, 120, 240)
_MOST_PASSAGES = 60


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


Fault = Kill | KillAtPoint | Cut | Silence | Full | Leave | Pause | Cancel
"""What happens beside the rows."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One schedule. The world draws what is not here (latencies, turns, what a power loss leaves) from the seed."""

    seed: int
    sites: tuple[str, ...] = SITES
    queries: tuple[str, ...] = ()
    """By name, in the order of their submission."""
    rows: int = 120
    """At each site."""
    rest_s: float = 0.02
    """The longest rest of a process after its turn."""
    slow_s: float = 0.003
    """The longest time that work in a thread takes."""
    sharing: str = "net"
    """The mode of `SET sharing`."""
    combine: bool = False
    """`SET combine = on` for all queries."""
    budget_bytes: int = 1 << 30
    """What a task's channel keeps for its readers before the task waits."""
    skews_s: tuple[float, ...] = ()
    """How far the sites' clocks are ahead; those that are not named are right."""
    faults: tuple[Fault, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """All machines but the client's."""
        return (*self.sites, MASTER)


class Feature(Enum):
    """Kinds of trouble. Each seed has some of them: a world with all of them hides what a few bring about."""

    KILLS = "kills"
    POWER = "power"
    POINTS = "points"
    CUTS = "cuts"
    SILENCES = "silences"
    FULL_DISKS = "full disks"
    LEAVING = "leaving clients"
    PAUSES = "pauses"
    CANCELS = "cancellations"
    SHARING = "sharing"
    COMBINING = "combining"
    SMALL_BUDGETS = "small budgets"
    SKEWS = "skewed clocks"
    SLOW_THREADS = "slow threads"
    LONG_RESTS = "long rests"


def drawn(seed: int) -> Plan:
    """The plan of a seed."""
    random = Random(f"{seed}/plan")
    features = frozenset(feature for feature in Feature if random.random() < 0.5)
    sites = SITES[: random.choice((2, 2, 3))]
    rows = random.choice(_ROWS)
    count = random.choice((1, 1, 2, 2, 3))
    plan = Plan(
        seed,
        sites=sites,
        queries=tuple(random.sample(sorted(QUERIES), count)),
        rows=rows,
        rest_s=0.2 if Feature.LONG_RESTS in features else 0.02,
        slow_s=0.2 if Feature.SLOW_THREADS in features else 0.003,
        sharing=random.choice([mode.value for mode in Sharing]) if Feature.SHARING in features else "net",
        combine=Feature.COMBINING in features,
        budget_bytes=2_000 if Feature.SMALL_BUDGETS in features else 1 << 30,
        skews_s=tuple(random.uniform(-2, 2) for _ in sites) if Feature.SKEWS in features else (),
    )
    return _with_faults(plan, features, random)


def _with_faults(plan: Plan, features: frozenset[Feature], random: Random) -> Plan:
    end_s = faults_begin_until_s(plan)
    faults: list[Fault] = []
    makers = [_MAKERS[feature] for feature in Feature if feature in features and feature in _MAKERS]
    if makers:
        at_s, every_s = FIRST_FAULT_S, random.choice((3.0, 6.0, 12.0))
        while (at_s := at_s + random.expovariate(1 / every_s)) < end_s:
            faults.append(random.choice(makers)(plan, random, at_s))
    return replace(plan, faults=tuple(faults))


def faults_begin_until_s(plan: Plan) -> float:
    """When the last fault begins, at the latest: before all rows are born."""
    return FIRST_FAULT_S + 0.7 * last_row_s(plan.rows)


def faults_end_s(plan: Plan) -> float:
    """When all faults of known times are over."""
    return max((fault.at_s + _lasts_s(fault) for fault in plan.faults if not isinstance(fault, KillAtPoint)), default=0)


def _lasts_s(fault: Fault) -> float:
    if isinstance(fault, Silence | Full | Pause):
        return fault.seconds
    return fault.away_s if isinstance(fault, Kill | KillAtPoint) else 0.0


def _kill(plan: Plan, random: Random, at_s: float) -> Fault:
    return Kill(at_s, random.choice(plan.names), _away_s(random))


def _away_s(random: Random) -> float:
    """Most come back at once, some only after others have given up."""
    return random.uniform(0, random.choice((3, 3, 3, 3, 3, 90)))


def _power(plan: Plan, random: Random, at_s: float) -> Fault:
    return Kill(at_s, random.choice(plan.names), _away_s(random), power=True)


def _point(plan: Plan, random: Random, _: float) -> Fault:
    name = random.choice(plan.names)
    points = sorted(point.value for point in (MasterPoint if name == MASTER else AgentPoint))
    passage = round(_MOST_PASSAGES ** random.random())
    return KillAtPoint(name, random.choice(points), passage, random.uniform(0, 2), power=random.random() < 0.3)


def _cut(plan: Plan, random: Random, at_s: float) -> Fault:
    return Cut(at_s, *random.sample(plan.names, 2))


def _silence(plan: Plan, random: Random, at_s: float) -> Fault:
    source, target = random.sample(plan.names, 2)
    return Silence(at_s, source, target, random.choice((1.0, 1.0, 5.0, 5.0, 30.0, 90.0)))


def _full(plan: Plan, random: Random, at_s: float) -> Fault:
    return Full(at_s, random.choice(plan.sites), random.uniform(0, 5))


def _leave(plan: Plan, random: Random, at_s: float) -> Fault:
    return Leave(at_s)


def _pause(plan: Plan, random: Random, at_s: float) -> Fault:
    return Pause(at_s, random.choice(plan.queries), random.uniform(0, 10))


def _cancel(plan: Plan, random: Random, at_s: float) -> Fault:
    return Cancel(at_s, random.choice(plan.queries))


_MAKERS: dict[Feature, Callable[[Plan, Random, float], Fault]] = {
    Feature.KILLS: _kill,
    Feature.POWER: _power,
    Feature.POINTS: _point,
    Feature.CUTS: _cut,
    Feature.SILENCES: _silence,
    Feature.FULL_DISKS: _full,
    Feature.LEAVING: _leave,
    Feature.PAUSES: _pause,
    Feature.CANCELS: _cancel,
}
