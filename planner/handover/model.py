"""Places of tasks, the tasks that have been in each, and the handover under way.

A *place* is what a vertex of a query's graph runs as, under the id of its first task. The tasks that follow one another
in it are told apart by their generation. All records of what runs name places; only assignments and reports have
generations.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum

from planner.graph.ids import TaskId
from planner.graph.plan import PhysicalPlan
from planner.values.stages import StageKind

STATELESS = (StageKind.DERIVE, StageKind.COMBINE)
"""Tasks of these kinds have published all that they hold when their channel ends: their successors need no state."""


class Step(Enum):
    """Says how far a handover has come; it is stored before any site hears of it."""

    REGISTERED = "registered"
    """The producers of the inputs keep what they have for the successor."""
    STARTED = "started"
    """The successor subscribes to the inputs, and publishes nothing."""
    SEEDING = "seeding"
    """The old task sends a checkpoint, from which the successor catches up."""
    CUT = "cut"
    """The old task ends its channel between two epochs; nobody is needed for that."""
    TAKEN = "taken"
    """The successor's channel goes on; the old one is read to its end."""
    WITHDRAWN = "withdrawn"
    """The order to end the channel is taken back; it may have been followed already."""
    BACK = "back"
    """The successor goes; the old task runs on as before."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """All parts of a merge give way to others, which the successor of the FINAL task reads in their place."""

    stage: str
    """The merge in parts."""
    sites: tuple[str, ...]
    """It has the site of each new part, in the order of their bins."""


@dataclass(frozen=True, slots=True)
class Swap:
    """Other tasks combine what a MERGE reads: its successor reads them in the place of those that run."""

    plan: PhysicalPlan
    """The plan of the query from then on. All of its COMBINE stages run anew."""
    note: str
    """It names the tasks that combine, for people."""


@dataclass(frozen=True, slots=True)
class Fork:
    """One query that shares the task goes on with a task of its own; all others, with the successor.

    Both are made as successors are, and the old task's channel ends in favour of both in one step.
    """

    query: str
    task: TaskId
    """The query's own task, by its generation in a place of the query's."""
    site: str

    @property
    def place(self) -> TaskId:
        return place_of(self.task)


@dataclass(frozen=True, slots=True)
class Join:
    """A query gives up a task of its own, and shares that of another query again.

    The successor makes its epochs of those of the shared task's channel, one by one. The old task's channel ends where
    the two channels meet.
    """

    shared: TaskId
    """The place of the shared task."""


@dataclass(frozen=True, slots=True)
class Handover:
    """The task of a place is being followed by another one: at another site, or of other inputs."""

    generation: int
    """It is the successor's generation; none is used twice."""
    from_site: str
    to_site: str
    asked_at: datetime
    step: Step = Step.REGISTERED
    since: datetime | None = None
    """It is the time when the step was stored; None: it is the first one."""
    reason: str = ""
    """Why it was asked for, or is rolled back."""
    unwanted: str = ""
    """Why nobody wants it any more; empty: it is wanted."""
    first_epochs: Mapping[str, int] = field(default_factory=dict)
    """It holds, by input, the oldest epoch at the successor's site; it is known from SEEDING on."""
    scaling: Scaling | None = None
    """The successor reads other parts than the old task; None: it reads what the old task reads."""
    without_state: bool = False
    """The successor begins in the middle of its inputs, and gets no state: the old task goes on until all windows are
    out of which the successor may lack rows."""
    whole_after_us: int | None = None
    """The successor, or each of the new parts that it reads, has every window that ends later whole; it is known from
    SEEDING on, where something begins in the middle of its inputs."""
    fork: Fork | None = None
    """The query that goes on with another task than the successor; None: there is none."""
    swap: Swap | None = None
    """The successor reads other tasks that combine than the old task; None: it reads what the old task reads."""
    join: Join | None = None
    """The successor makes its epochs of another query's; None: it does not."""

    def at(self, step: Step, now: datetime, *, reason: str = "") -> Handover:
        return replace(self, step=step, since=now, reason=reason or self.reason)

    @property
    def swapped(self) -> str:
        """Return the names of the tasks that are to combine, for people; empty: no others than before."""
        return "" if self.swap is None else self.swap.note

    def not_wanted(self, why: str) -> Handover:
        """The handover, which is to be rolled back if it can be."""
        return replace(self, unwanted=why)

    def seeding(self, first_epochs: Mapping[str, int]) -> Handover:
        """Return the handover with what the successor's site holds of the inputs."""
        return replace(self, first_epochs=first_epochs)

    def whole_after(self, us: int) -> Handover:
        """Return the handover with the instant after which all windows are whole."""
        return replace(self, whole_after_us=us)

    @property
    def begins_late(self) -> bool:
        """Return whether the successor, or what it reads, begins in the middle of its inputs."""
        return self.without_state or self.reads_others

    @property
    def reads_others(self) -> bool:
        """Return whether the successor reads other tasks than the old task, which begin beside those."""
        return self.scaling is not None or self.swap is not None

    @property
    def reading_shared(self) -> tuple[str, ...]:
        """Return the sites for which a task that is to be shared keeps what it has."""
        if self.join is None or self.step is Step.BACK:
            return ()
        return (self.to_site,) if self.step is Step.TAKEN else (self.from_site, self.to_site)

    @property
    def step_since(self) -> datetime:
        return self.since or self.asked_at

    @property
    def started(self) -> bool:
        """Return whether the successor's site is told of the successor."""
        return self.step not in (Step.REGISTERED, Step.BACK)

    @property
    def reading(self) -> tuple[str, ...]:
        """The sites for which the producers of the inputs keep what they have, for the successor and the old task."""
        if self.step is Step.BACK:
            return (self.from_site,)
        if self.join is not None:
            return () if self.step is Step.TAKEN else (self.from_site,)
        return (self.to_site,) if self.step is Step.TAKEN else (self.from_site, self.to_site)


@dataclass(frozen=True, slots=True)
class Earlier:
    """A task that was in the place before."""

    generation: int
    site: str
    from_epoch: int
    """The first epoch of its channel."""
    of: TaskId | None = None
    """The place in which it was, where that is another query's, from which this one was forked."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Says how the last handover of a place ended."""

    generation: int
    from_site: str
    to_site: str
    asked_at: datetime
    ended_at: datetime
    moved: bool
    """False: it was rolled back."""
    reason: str = ""
    scaling: Scaling | None = None
    fork: Fork | None = None
    swapped: str = ""
    """It names the tasks that were to combine, for people; empty: no others than before."""
    join: Join | None = None


@dataclass(frozen=True, slots=True)
class Lineage:
    """The tasks of one place. A place that is not known has had one task, which is its first one."""

    place: TaskId
    generation: int = 0
    """It is the generation of the task that is in the place; of the old one, while it hands over."""
    from_epoch: int = 0
    """The first epoch of that task's channel."""
    next_generation: int = 1
    earlier: tuple[Earlier, ...] = ()
    """Oldest first."""
    handover: Handover | None = None
    last: Outcome | None = None

    @property
    def task(self) -> TaskId:
        """The task that is in the place."""
        return self.place._replace(generation=self.generation)

    @property
    def origin(self) -> TaskId:
        """Return the place in which its first task was: another query's, if this one was forked from that."""
        return next((one.of for one in self.earlier if one.of is not None), self.place)

    @property
    def successor(self) -> TaskId | None:
        return None if self.handover is None else self.place._replace(generation=self.handover.generation)

    @property
    def successors(self) -> Mapping[TaskId, str]:
        """Return the tasks that take over from the one in the place, each with its site."""
        found = self.handover
        if found is None:
            return {}
        own = {self.place._replace(generation=found.generation): found.to_site}
        return own if found.fork is None else {**own, found.fork.task: found.fork.site}

    @property
    def shadowed(self) -> bool:
        """Return whether a task reads, or is about to read, the place's inputs beside the one whose output counts."""
        return self.handover is not None and self.handover.step not in (Step.TAKEN, Step.BACK)

    def asked(
        self, from_site: str, to_site: str, now: datetime, reason: str = "", *, without_state: bool = False
    ) -> Lineage:
        """Return the lineage with a handover that begins; its generation is new."""
        begun = Handover(self.next_generation, from_site, to_site, now, reason=reason, without_state=without_state)
        return replace(self, next_generation=self.next_generation + 1, handover=begun)

    def begun(self, handover: Handover) -> Lineage:
        """Return the lineage with a handover; its generation is one that no task in the place has had."""
        return replace(self, next_generation=handover.generation + 1, handover=handover)

    def forked(self, site: str, fork: Fork, now: datetime, reason: str = "", *, without_state: bool = False) -> Lineage:
        """Return the lineage with a handover, at its site, in which one query gets a task of its own.

        The generation of that task is the successor's.
        """
        generation = fork.task.generation
        begun = Handover(generation, site, site, now, reason=reason, without_state=without_state, fork=fork)
        return replace(self, next_generation=generation + 1, handover=begun)

    def joining(self, sites: tuple[str, str], join: Join, now: datetime, reason: str = "") -> Lineage:
        """Return the lineage with a handover, from site to site, in which the query shares another's task again."""
        return self.begun(Handover(self.next_generation, *sites, now, reason=reason, join=join))

    def branch(self, from_epoch: int) -> Lineage:
        """Return the lineage of the place of a fork's task, whose channel begins at that epoch.

        All tasks that were in this place, the one that hands over among them, were in that one.
        """
        assert self.handover is not None
        assert self.handover.fork is not None
        task = self.handover.fork.task
        before = (*self.earlier, Earlier(self.generation, self.handover.from_site, self.from_epoch))
        earlier = tuple(replace(one, of=one.of or self.place) for one in before)
        return Lineage(place_of(task), task.generation, from_epoch, task.generation + 1, earlier)

    def replaced(self, generation: int) -> Lineage:
        """Return the lineage of a part with the task of that generation in it, whose channel begins with epoch 0."""
        return Lineage(self.place, generation, next_generation=generation + 1, last=self.last)

    def with_handover(self, handover: Handover) -> Lineage:
        return replace(self, handover=handover)

    def rolled_back(self, now: datetime) -> Lineage:
        """Return the lineage without the handover."""
        return replace(self, handover=None, last=self._outcome(now, moved=False))

    def moved(self, from_epoch: int, now: datetime) -> Lineage:
        """Return the lineage with the successor in the place; its channel begins at that epoch."""
        assert self.handover is not None
        gone = Earlier(self.generation, self.handover.from_site, self.from_epoch)
        return replace(
            self,
            generation=self.handover.generation,
            from_epoch=from_epoch,
            earlier=(*self.earlier, gone),
            handover=None,
            last=self._outcome(now, moved=True),
        )

    def _outcome(self, now: datetime, *, moved: bool) -> Outcome:
        done = self.handover
        assert done is not None
        reason = "" if moved else done.reason
        sites = done.from_site, done.to_site
        ended = Outcome(done.generation, *sites, done.asked_at, now, moved, reason)
        return replace(ended, scaling=done.scaling, fork=done.fork, swapped=done.swapped, join=done.join)


def place_of(task: TaskId) -> TaskId:
    """The place that a task is in, or was in."""
    return task._replace(generation=0) if task.generation else task
