"""What one schedule does, drawn from its seed: a value that can be printed, changed and played again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from random import Random

from master.base.faults import FaultPoint as MasterPoint
from planner.sharing.modes import Sharing
from site_agent.base.faults import FaultPoint as AgentPoint
from tests.simulation.engine import Answers
from tests.simulation.faults import (
    Break,
    Cancel,
    Combine,
    Cut,
    Damage,
    Declare,
    Failing,
    Fault,
    Full,
    Kill,
    KillAtPoint,
    Lease,
    Leave,
    Move,
    Pause,
    Scale,
    SetClock,
    Silence,
    Slow,
    over_s,
)
from tests.simulation.rows import FIRST_ROW_S, LONG_AGO_S, last_row_s
from tests.simulation.workload import DRAWN, SCALED

MASTER = "master"
SLOTS = 4
"""Of a site."""
SITES = ("us", "eu", "asia")

RARE = ("early_taps",)
"""Some parts of their merges have no rows for long. Clients are not told of the watermarks of epochs that a part has
published without rows since it began anew, so nobody could see that these come while a source is idle."""

SMALL_BUDGET_BYTES = 2_000
"""A few epochs."""

FIRST_FAULT_S = 1.0
_ROWS = (60, 120, 240)
_MOST_PASSAGES = 60
_MOST_MESSAGES = 2000


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
    together: bool = False
    """All queries are submitted at once, not one after the other."""
    there: bool = False
    """All rows of the steady stream are there from the beginning."""
    combine: bool = False
    """`SET combine = on` for all queries."""
    tree: str = ""
    """`SET combine_tree` for all queries; empty: as the placer decides."""
    tight: bool = False
    """Agents have no memory for rows that are on disk, and work on few rows at once."""
    parts: int = 1
    """`SET merge_parallelism` for all queries."""
    budget_bytes: int = 1 << 30
    """What a task's channel keeps for its readers before the task waits."""
    skews_s: tuple[float, ...] = ()
    """How far the sites' clocks are ahead at first; those that are not named are right."""
    faults: tuple[Fault, ...] = ()
    key_filters: str = ""
    """`SET key_filters` for all queries; empty: as the master has it."""
    answers: Answers = field(default_factory=dict, repr=False, compare=False)
    """The answers of Spark about the plan's drawn queries."""

    @property
    def names(self) -> tuple[str, ...]:
        """All machines but the client's."""
        return (*self.sites, MASTER)

    @property
    def clicks_from_s(self) -> float:
        """When the first row of the steady stream was born."""
        return LONG_AGO_S if self.there else FIRST_ROW_S

    @property
    def is_damaged(self) -> bool:
        """Whether a query may fail because nobody has its rows any more."""
        return any(isinstance(fault, Damage) for fault in self.faults)


class Feature(Enum):
    """Kinds of trouble. Each seed has some of them: a world with all of them hides what a few bring about."""

    KILLS = "kills"
    POWER = "power"
    POINTS = "points"
    CUTS = "cuts"
    BREAKS = "cuts at some message"
    SILENCES = "silences"
    FULL_DISKS = "full disks"
    FAILING_DISKS = "failing disks"
    DAMAGE = "damaged files"
    SLOW_DISKS = "slow disks"
    CLOCKS = "clocks that are set"
    LEAVING = "leaving clients"
    PAUSES = "pauses"
    CANCELS = "cancellations"
    DECLARING = "declarations"
    LEASES = "leases"
    MOVES = "moves of tasks"
    SHARING = "sharing"
    ALONE = "machines that come back while they do not hear the master"
    TOGETHER = "queries that are submitted together"
    THERE = "rows that are there"
    COMBINING = "combining"
    PARTS = "merges in parts"
    SMALL_BUDGETS = "small budgets"
    SKEWS = "skewed clocks"
    SLOW_THREADS = "slow threads"
    LONG_RESTS = "long rests"


def drawn(seed: int) -> Plan:
    """The plan of a seed."""
    random = Random(f"{seed}/plan")
    features = frozenset(feature for feature in Feature if random.random() < _SHARES.get(feature, 0.5))
    sites = SITES[: random.choice((2, 2, 3))]
    rows = random.choice(_ROWS)
    # Rows that are there are soon read: what matters is how queries begin beside each other.
    count = random.choice((1, 2, 3, 6) if Feature.THERE in features else (1, 1, 2, 2, 3, 3))
    plan = Plan(
        seed,
        sites=sites,
        queries=tuple(random.sample(DRAWN, count)),
        rows=rows,
        rest_s=0.2 if Feature.LONG_RESTS in features else 0.02,
        slow_s=0.2 if Feature.SLOW_THREADS in features else 0.003,
        sharing=random.choice([mode.value for mode in Sharing]) if Feature.SHARING in features else "net",
        together=Feature.TOGETHER in features or (Feature.THERE in features and random.random() < 0.6),
        there=Feature.THERE in features,
        combine=Feature.COMBINING in features,
        tree=_tree(seed, sites) if Feature.COMBINING in features else "",
        tight=Random(f"{seed}/tight").random() < 0.5,
        parts=random.choice((2, 3)) if Feature.PARTS in features else 1,
        budget_bytes=SMALL_BUDGET_BYTES if Feature.SMALL_BUDGETS in features else 1 << 30,
        skews_s=tuple(random.uniform(-2, 2) for _ in sites) if Feature.SKEWS in features else (),
    )
    if Feature.PARTS in features and Feature.MOVES in features:
        # Only a merge with a FINAL behind it can have other parts while it runs.
        more = Random(f"{seed}/scaled").choice(SCALED)
        plan = replace(plan, queries=(*plan.queries, more))
    return _with_faults(plan, features, random)


def drawn_of(seed: int, queries: Sequence[str]) -> Plan:
    """Return the plan of a seed with one to three of these in the place of those that it draws."""
    plan = drawn(seed)
    told = [name for name in queries if plan.parts == 1 or name not in RARE]
    names = tuple(Random(seed).sample(told, 1 + seed % 3))
    of_query = Pause | Cancel | Move | Scale | Combine
    faults = (replace(f, query=names[0]) if isinstance(f, of_query) else f for f in plan.faults)
    return replace(plan, queries=names, faults=tuple(faults))


def _tree(seed: int, sites: tuple[str, ...]) -> str:
    """Over which sites combined groups go; of every second seed, as the placer decides."""
    return drawn_tree(Random(f"{seed}/tree"), sites)


def drawn_tree(random: Random, sites: tuple[str, ...]) -> str:
    """Over which sites combined groups go; empty: as the placer decides."""
    between, *others = random.sample(sites, len(sites))
    shapes = ["", "", ", ".join(f"{site} > {between}" for site in others), " > ".join((*others, between))]
    return random.choice(shapes)


def _with_faults(plan: Plan, features: frozenset[Feature], random: Random) -> Plan:
    end_s = faults_begin_until_s(plan)
    faults: list[Fault] = []
    makers = [_MAKERS[feature] for feature in Feature if feature in features and feature in _MAKERS]
    if makers:
        at_s, every_s = FIRST_FAULT_S, random.choice((3.0, 6.0, 12.0))
        while (at_s := at_s + random.expovariate(1 / every_s)) < end_s:
            faults += random.choice(makers)(plan, random, at_s)
    return replace(plan, faults=tuple(faults))


def trouble(plan: Plan, random: Random, at_s: float) -> Iterable[Fault]:
    """Something that goes wrong then, or that a user does who moves nothing."""
    return (random.choice(_TROUBLE)(plan, random, at_s),)


def faults_begin_until_s(plan: Plan) -> float:
    """When the last fault begins, at the latest: before all rows are born."""
    return FIRST_FAULT_S + 0.7 * last_row_s(plan.rows)


def faults_end_s(plan: Plan) -> float:
    """When all faults of known times are over."""
    return max((over_s(fault) for fault in plan.faults), default=0)


def _single(make: Callable[[Plan, Random, float], Fault]) -> Callable[[Plan, Random, float], Iterable[Fault]]:
    return lambda plan, random, at_s: (make(plan, random, at_s),)


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


def _break(plan: Plan, random: Random, at_s: float) -> Fault:
    source, target = random.sample(plan.names, 2)
    return Break(source, target, round(_MOST_MESSAGES ** random.random()))


def _failing(plan: Plan, random: Random, at_s: float) -> Fault:
    return Failing(at_s, random.choice(plan.sites), random.uniform(0, 5), random.choice((0.02, 0.2, 1.0)))


def _damage(plan: Plan, random: Random, at_s: float) -> Fault:
    return Damage(at_s, random.choice(plan.sites))


def _slow(plan: Plan, random: Random, at_s: float) -> Fault:
    return Slow(at_s, random.choice(plan.names), random.uniform(1, 10), random.choice((0.1, 1.0, 5.0)))


def _clock(plan: Plan, random: Random, at_s: float) -> Fault:
    return SetClock(at_s, random.choice(plan.names), random.choice((-1, 1)) * 60 ** random.random())


def _leave(plan: Plan, random: Random, at_s: float) -> Fault:
    return Leave(at_s)


def _pause(plan: Plan, random: Random, at_s: float) -> Fault:
    return Pause(at_s, random.choice(plan.queries), random.uniform(0, 10))


def _cancel(plan: Plan, random: Random, at_s: float) -> Fault:
    return Cancel(at_s, random.choice(plan.queries))


def _declare(plan: Plan, random: Random, at_s: float) -> Fault:
    return Declare(at_s, f"{random.getrandbits(32):08x}", random.uniform(0, 10))


def _lease(plan: Plan, random: Random, at_s: float) -> Fault:
    framework = f"framework-{random.randrange(2)}"
    seconds = random.uniform(0.5, 10)
    return Lease(at_s, framework, random.choice(plan.sites), random.randrange(SLOTS), seconds, random.random() < 0.5)


def _move(plan: Plan, random: Random, at_s: float) -> Fault:
    called_off_s = random.choice((None, None, None, 8 * random.random()))
    query, place, site = random.choice(plan.queries), random.random(), random.choice(plan.sites)
    combined = Random(f"{plan.seed}/combine/{at_s}")
    if plan.sharing == "net" and combined.random() < 0.3:
        return Combine(at_s, query, drawn_tree(combined, plan.sites), called_off_s)
    # Of its own, so that what was drawn before merges could have other parts stays as it was.
    own = Random(f"{plan.seed}/scale/{at_s}")
    if plan.parts > 1 and own.random() < 0.6:
        sites = tuple(own.choices(plan.sites, k=own.randrange(3)))
        return Scale(at_s, plan.queries[-1], place, own.randrange(1, 5), sites, called_off_s)
    without_state = Random(f"{plan.seed}/late/{at_s}").random() < 0.4
    return Move(at_s, query, place, site, called_off_s, without_state)


def _alone(plan: Plan, random: Random, at_s: float) -> Iterable[Fault]:
    """A machine comes back with what its disk has, and acts on it for a while: the master's orders do not arrive."""
    site, seconds = random.choice(plan.sites), random.choice((2.0, 10.0, 30.0, 90.0))
    if random.random() < 0.5:
        # While queries are submitted, so that others hear of them and this one does not.
        at_s = random.uniform(0.2, FIRST_FAULT_S)
    yield Silence(at_s, MASTER, site, seconds)
    if random.random() < 0.5:
        away_s = random.uniform(0, seconds / 4)
        yield Kill(at_s + random.uniform(0, seconds / 2), site, away_s, power=random.random() < 0.5)


_SHARES = {Feature.DAMAGE: 0.1, Feature.PARTS: 0.3, Feature.THERE: 0.2, Feature.ALONE: 0.3}
"""How many seeds have it, where it is not every other one."""
_ONE = {
    Feature.KILLS: _kill,
    Feature.POWER: _power,
    Feature.POINTS: _point,
    Feature.CUTS: _cut,
    Feature.BREAKS: _break,
    Feature.SILENCES: _silence,
    Feature.FULL_DISKS: _full,
    Feature.FAILING_DISKS: _failing,
    Feature.DAMAGE: _damage,
    Feature.SLOW_DISKS: _slow,
    Feature.CLOCKS: _clock,
    Feature.LEAVING: _leave,
    Feature.PAUSES: _pause,
    Feature.CANCELS: _cancel,
    Feature.DECLARING: _declare,
    Feature.LEASES: _lease,
    Feature.MOVES: _move,
}
_TROUBLE = (_kill, _power, _point, _cut, _silence, _full, _failing, _slow, _clock, _pause, _leave)
_MAKERS: dict[Feature, Callable[[Plan, Random, float], Iterable[Fault]]] = {
    **{feature: _single(make) for feature, make in _ONE.items()},
    Feature.ALONE: _alone,
}
