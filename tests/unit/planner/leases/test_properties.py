"""Whatever is asked in whatever order: no slot is held twice, nobody overstays, no wake-up is lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from planner.leases import (
    Decision,
    Framework,
    Granted,
    Lease,
    LeasePolicy,
    LeaseRef,
    LeaseTable,
    Refused,
    Released,
    Renewal,
    Renewed,
    SiteSlots,
    Slot,
    SlotRecord,
    SlotState,
    Waiter,
    Wish,
    acquire,
    expire,
    leave,
    release,
    renew,
    resume,
    set_site,
    wait_for,
)
from tests.unit.planner.leases.build import FRAMEWORKS, START, indices, recount
from tests.unit.planner.leases.test_policy import shares_by_turns

SITES = ("eu", "us")

slots = st.builds(Slot, st.sampled_from(SITES), st.integers(0, 3))
frameworks = st.sampled_from(FRAMEWORKS)
durations = st.sampled_from([0, 1, 3, 10, 30, 31]).map(lambda seconds: timedelta(seconds=seconds))
tickets = st.sampled_from(["t1", "t2", "t3", "t4"])


class Sharing(RuleBasedStateMachine):
    """Beside the table, a plain dictionary of promises: what holders were told."""

    def __init__(self) -> None:
        super().__init__()
        self.table = LeaseTable()
        self.now: datetime = START
        self.promised: dict[Slot, Lease] = {}
        self.numbers: dict[Slot, int] = {}

    @initialize(
        fair=st.booleans(),
        grace=st.sampled_from([0, 5]),
        quotas=st.tuples(*[st.sampled_from([None, 0, 1, 3])] * len(FRAMEWORKS)),
    )
    def begin(self, fair: bool, grace: int, quotas: tuple[int | None, ...]) -> None:
        longest, offer = timedelta(seconds=30), timedelta(seconds=2)
        self.table = LeaseTable(LeasePolicy(longest, timedelta(seconds=grace), offer, fair))
        for name, quota in zip(FRAMEWORKS, quotas, strict=True):
            self.table.frameworks.put(Framework(name, START, quota))
        for site in SITES:
            self.done(set_site(self.table, site, SiteSlots(3), now=self.now))

    def done(self, decision: Decision[Any]) -> tuple[Any, ...]:
        """Apply, having seen that deciding changed nothing and that applying can be undone."""
        before = self.table.records(), indices(self.table)
        self.table.apply(decision)
        self.table.undo(decision)
        assert (self.table.records(), indices(self.table)) == before
        self.table.apply(decision)
        self.forget_what_is_over()
        for outcome in decision.outcomes:
            self.remember(outcome)
        return decision.outcomes

    def forget_what_is_over(self) -> None:
        over = [slot for slot, lease in self.promised.items() if lease.grace_ends_at <= self.now]
        for slot in over:
            del self.promised[slot]

    def remember(self, outcome: object) -> None:
        if isinstance(outcome, Granted):
            lease = outcome.lease
            assert lease.slot not in self.promised, "held twice"
            assert lease.fencing > max(self.numbers.values(), default=0)
            self.numbers[lease.slot] = lease.fencing
            self.promised[lease.slot] = lease
        elif isinstance(outcome, Renewed):
            assert self.promised[outcome.lease.slot].fencing == outcome.lease.fencing
            self.promised[outcome.lease.slot] = outcome.lease
        elif isinstance(outcome, Released):
            del self.promised[outcome.slot]

    @rule(seconds=st.sampled_from([0.5, 1, 2, 5, 40]), look=st.booleans())
    def time_passes(self, seconds: float, look: bool) -> None:
        self.now += timedelta(seconds=seconds)
        if look:
            self.done(expire(self.table, now=self.now))

    @rule(
        framework=frameworks,
        wishes=st.lists(st.builds(Wish, slots, durations), min_size=1, max_size=4),
        atomic=st.booleans(),
    )
    def someone_acquires(self, framework: str, wishes: Sequence[Wish], atomic: bool) -> None:
        with self.looked_at():
            held, cap = self.table.held(framework), self.cap(framework)
        outcomes = self.done(acquire(self.table, framework, wishes, now=self.now, atomic=atomic))
        granted = [outcome for outcome in outcomes if isinstance(outcome, Granted)]
        assert not atomic or len(granted) in (0, len(wishes))
        assert self.table.held(framework) <= max(held, cap)
        assert all(outcome.text for outcome in outcomes if isinstance(outcome, Refused))

    def cap(self, framework: str) -> int:
        shared, quota = self.table.shared, self.table.frameworks.get(framework).quota
        if not self.table.policy.fair:
            return shared if quota is None else quota
        demands = {}
        for name in FRAMEWORKS:
            held, most = self.table.held(name), self.table.frameworks.get(name).quota
            wanted = held + self.table.tickets.waiting(name)
            demands[name] = wanted if most is None else max(held, min(wanted, most))
        share = shares_by_turns({**demands, framework: shared}, shared)[framework]
        return share if quota is None else min(share, quota)

    @rule(framework=frameworks, slot=slots, back=st.integers(-1, 1), duration=durations)
    def someone_renews(self, framework: str, slot: Slot, back: int, duration: timedelta) -> None:
        number = self.numbers.get(slot, 0) - back
        self.done(renew(self.table, framework, [Renewal(slot, number, duration)], now=self.now))

    @rule(framework=frameworks, slot=slots, back=st.integers(-1, 1))
    def someone_releases(self, framework: str, slot: Slot, back: int) -> None:
        number = self.numbers.get(slot, 0) - back
        self.done(release(self.table, framework, [LeaseRef(slot, number)], now=self.now))

    @rule(slot=slots)
    def the_holder_releases(self, slot: Slot) -> None:
        if slot in self.promised:
            lease = self.promised[slot]
            self.done(release(self.table, lease.holder, [LeaseRef(slot, lease.fencing)], now=self.now))

    @rule(ticket=tickets, framework=frameworks, wanted=st.lists(slots, min_size=1, max_size=3))
    def someone_waits(self, ticket: str, framework: str, wanted: Sequence[Slot]) -> None:
        self.done(wait_for(self.table, Waiter(ticket, framework), wanted, now=self.now))

    @rule(ticket=tickets)
    def someone_leaves(self, ticket: str) -> None:
        self.done(leave(self.table, ticket, now=self.now))
        assert not self.table.tickets.slots(ticket)

    @rule(site=st.sampled_from(SITES), count=st.integers(0, 4), reachable=st.booleans(), draining=st.booleans())
    def a_site_changes(self, site: str, count: int, reachable: bool, draining: bool) -> None:
        self.promised = {s: lease for s, lease in self.promised.items() if s.site != site or s.index < count}
        self.done(set_site(self.table, site, SiteSlots(count, reachable, draining), now=self.now))

    @rule(seconds=st.integers(0, 60))
    def the_manager_was_away(self, seconds: int) -> None:
        """Every lease that was not over when it went has as much time left as then."""
        self.done(expire(self.table, now=self.now))
        promised = dict(self.promised)
        away = timedelta(seconds=seconds)
        self.now += away
        self.table.apply(resume(self.table, away, now=self.now))
        for slot, lease in promised.items():
            record = self.table.get(slot)
            assert record is not None
            assert record.lease is not None
            assert record.lease.fencing == lease.fencing
            assert record.lease.expires_at == lease.expires_at + away
            self.promised[slot] = record.lease

    @contextmanager
    def looked_at(self) -> Iterator[None]:
        """The table with all that is over by now over; afterwards nobody has looked."""
        looked = expire(self.table, now=self.now)
        self.table.apply(looked)
        yield
        self.table.undo(looked)

    @invariant()
    def all_is_well(self) -> None:
        with self.looked_at():
            self.promises_are_kept_and_nobody_overstays()
            for record in self.table.records():
                self.no_wake_up_is_lost(record)
                self.state_says_what_time_says(record)
            self.indices_agree_with_a_recount()

    def promises_are_kept_and_nobody_overstays(self) -> None:
        self.forget_what_is_over()
        assert {r.slot: r.lease for r in self.table.records() if r.lease is not None} == self.promised

    def no_wake_up_is_lost(self, record: SlotRecord) -> None:
        if record.grantable and record.lease is None and record.waiters:
            assert record.state is SlotState.OFFERED
            assert record.offer is not None
            assert record.offer.waiter == record.waiters[0]
            assert record.offer.until > self.now
        else:
            assert record.offer is None

    def state_says_what_time_says(self, record: SlotRecord) -> None:
        if record.lease is None:
            assert record.state in (SlotState.FREE, SlotState.OFFERED)
        else:
            assert (record.state is SlotState.LEASED) == (self.now < record.lease.expires_at)

    def indices_agree_with_a_recount(self) -> None:
        assert indices(self.table) == recount(self.table)
        deadlines = [record.deadline for record in self.table.records() if record.deadline is not None]
        assert self.table.deadlines.next() == min(deadlines, default=None)


TestSharing = Sharing.TestCase
TestSharing.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
