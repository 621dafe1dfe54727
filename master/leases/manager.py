"""Decides requests for slots batch by batch: decide, store, apply, notify."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Generic, TypeVar

from machine.clock import Clock
from machine.faults import reached
from master.base.clock import SteadyTime
from master.base.errors import InvalidRequestError, StoreError
from master.base.faults import FaultPoint
from master.base.logs import line
from master.leases.tickets import TicketEvent, Tickets
from master.records.ids import RandomHex
from master.records.model import SiteState
from master.sites.status import Sites, SiteStatus
from master.store import LeaseStore, LeaseUpdate, StoredLeases
from planner.leases import (
    Change,
    Decision,
    Framework,
    Lease,
    LeasePolicy,
    LeaseTable,
    SiteSlots,
    Slot,
    SlotRecord,
    SlotState,
    Waiter,
    expire,
    follow_clock,
    leave,
    resume,
    set_site,
    wait_for,
)
from planner.leases.waiting import WaitOutcome

logger = logging.getLogger(__name__)

OutcomeT = TypeVar("OutcomeT")
Decide = Callable[[LeaseTable, datetime], Decision[OutcomeT]]

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,62}")
_TOLERANCE = timedelta(seconds=1)
"""The largest difference between the manager's time and the machine's clock at which leases stay as they are."""


@dataclass(frozen=True, slots=True)
class LeaseParts:
    """The parts that the lease manager uses."""

    store: LeaseStore
    sites: Sites
    clock: Clock
    random_hex: RandomHex


@dataclass(frozen=True, slots=True)
class _Request(Generic[OutcomeT]):
    decide: Decide[OutcomeT]
    answer: asyncio.Future[tuple[OutcomeT, ...]]


class LeaseManager:
    """Keeps the table of slots durable and in step with the sites. One event loop; nothing else changes the table."""

    def __init__(self, parts: LeaseParts, policy: LeasePolicy, *, alive_interval: timedelta) -> None:
        """Continue from the last stop: each lease has as much time left as then."""
        self._parts = parts
        self._alive_interval = alive_interval
        stored = parts.store.leases()
        self.table = LeaseTable(policy, fencing=stored.fencing)
        for framework in parts.store.frameworks():
            self.table.frameworks.put(framework)
        self.table.load(SlotRecord(lease.slot, SlotState.LEASED, lease) for lease in stored.leases)
        self.tickets = Tickets()
        self._listeners: list[Callable[[Sequence[Change]], None]] = [self.tickets.publish]
        self._queue: list[_Request[Any]] = []
        self._own: set[str] = set()
        self._followed: dict[str, SiteSlots] = {}
        self._followed_version = -1
        self._time = SteadyTime(parts.clock)
        self._alive_at = self._time.now()
        self._unsaved: tuple[Slot, ...] = ()
        if stored.alive_at is not None and stored.leases:
            self._take_up(stored)
        self.follow_sites()

    def _take_up(self, stored: StoredLeases) -> None:
        """Does not store the leases at once: a master starts even when its disk is full."""
        now = self._time.now()
        away = now - (stored.alive_at or now)
        self.table.apply(resume(self.table, away, now=now))
        self._unsaved = tuple(lease.slot for lease in stored.leases)
        logger.info(line("leases taken up", away=f"{away.total_seconds():.1f}s"))

    def listen(self, listener: Callable[[Sequence[Change]], None]) -> None:
        """Call the listener for every change, once it is durable."""
        self._listeners.append(listener)

    async def ask(self, decide: Decide[OutcomeT]) -> tuple[OutcomeT, ...]:
        """The outcomes, once they are durable. If the caller is cancelled before the decision, the request is dropped.

        Raises:
            PlannerError: the request is refused as a whole.
            StoreError: nothing was stored, so nothing has changed.
        """
        loop = asyncio.get_running_loop()
        request = _Request(decide, loop.create_future())
        self._queue.append(request)
        if len(self._queue) == 1:
            loop.call_soon(self._decide_queue)
        return await request.answer

    def ask_now(self, decide: Decide[OutcomeT]) -> tuple[OutcomeT, ...]:
        """The same without waiting for other requests, for the master's own needs.

        Raises:
            PlannerError, StoreError
        """
        (answer,) = self._commit([decide])
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def wait(
        self, framework: str, slots: Sequence[Slot]
    ) -> AsyncGenerator[tuple[WaitOutcome, ...] | TicketEvent, None]:
        """The outcomes of joining the waiting lists, then events until the ticket is in none; closing it leaves the
        lists.

        Raises:
            UnknownFrameworkError
        """
        ticket = f"{framework}:{self._parts.random_hex(12)}"
        events = self.tickets.open(ticket)
        waiter = Waiter(ticket, framework)
        try:
            yield await self.ask(lambda table, now: wait_for(table, waiter, slots, now=now))
            while True:
                seen = events.changes.version
                while events.pending:
                    yield events.pending.popleft()
                if not self.table.tickets.slots(ticket):
                    return
                await events.changes.wait_beyond(seen)
        finally:
            self.tickets.close(ticket)
            # If even that cannot be stored, its offers lapse by themselves.
            with suppress(StoreError):
                self.ask_now(lambda table, now: leave(table, ticket, now=now))

    def register(self, name: str, comment: str = "") -> Framework:
        """Add the framework; an existing one gets the comment, if there is one.

        Raises:
            InvalidRequestError: the name cannot be one, or is that of a framework of the master's own.
            StoreError
        """
        if not _NAME.fullmatch(name):
            raise InvalidRequestError(
                f"{name!r} cannot be a framework's name",
                hint="a letter, then up to 62 letters, digits, '_', '-' or '.'",
                ids={"framework": name},
            )
        if name in self._own:
            raise InvalidRequestError(
                f"the framework {name} is Selat's own", hint="choose another name", ids={"framework": name}
            )
        known = {framework.name: framework for framework in self.table.frameworks.all()}.get(name)
        if known is None:
            return self._put(Framework(name, self._parts.clock.now(), comment=comment))
        return self._put(replace(known, comment=comment)) if comment and comment != known.comment else known

    def check_site(self, name: str) -> None:
        """Raises UnknownSiteError for a site that is not in the topology."""
        self._parts.sites.get(name)

    def introduce(self, name: str, comment: str) -> None:
        """Add a framework of the master's own; it is stored only when a setting of it changes."""
        self._own.add(name)
        if name not in {framework.name for framework in self.table.frameworks.all()}:
            self.table.frameworks.put(Framework(name, self._parts.clock.now(), comment=comment))

    def set_quota(self, name: str, quota: int | None) -> Framework:
        """Limit how many slots a framework is granted; it keeps the slots that it holds.

        Raises:
            UnknownFrameworkError, InvalidDefinitionError, StoreError
        """
        return self._put(replace(self.table.frameworks.get(name), quota=quota))

    def now(self) -> datetime:
        """The leases' present time: it advances with the monotonic clock."""
        return self._time.now()

    def tick(self) -> None:
        """Apply the passing of time: sites come and go, leases expire, the machine's clock is set.

        Raises:
            StoreError: it is tried again with the next tick.
        """
        self.follow_sites()
        self._follow_clock()
        deadline, now = self.table.deadlines.next(), self.now()
        if deadline is not None and deadline <= now:
            self.ask_now(lambda table, now: expire(table, now=now))
        if now >= self._alive_at + self._alive_interval:
            self.mark_alive()

    def _follow_clock(self) -> None:
        """Move all leases along if the machine's clock was set: clients compare the ends of leases with their clocks.

        Raises:
            StoreError: the leases cannot be stored; none has moved.
        """
        by = self._time.departure
        if abs(by) <= _TOLERANCE:
            return
        self._time.move(by)
        try:
            self.ask_now(lambda table, now: follow_clock(table, by, now=now))
        except StoreError:
            self._time.move(-by)
            raise
        self._alive_at += by
        logger.warning(line("the machine's clock was set; leases move with it", by=f"{by.total_seconds():.1f}s"))

    def mark_alive(self) -> None:
        """Store that the master is running, as long as there are leases whose time would stop with it."""
        self._alive_at = self.now()
        if self._unsaved or self.table.wanting():
            self._put_leases((), (), self._alive_at)

    def _put(self, framework: Framework) -> Framework:
        self._parts.store.put_framework(framework)
        self.table.frameworks.put(framework)
        return framework

    def follow_sites(self) -> None:
        """Update the table with the slots of the sites as last reported.

        Raises:
            StoreError
        """
        version = self._parts.sites.version
        if version == self._followed_version:
            return
        statuses = {status.name: _slots_of(status) for status in self._parts.sites.all()}
        gone = {site: SiteSlots(0, reachable=False) for site in self.table.sites() if site not in statuses}
        for site, slots in {**statuses, **gone}.items():
            if self._followed.get(site) != slots:
                self.ask_now(_site_decision(site, slots))
                self._followed[site] = slots
        self._followed_version = version

    def _decide_queue(self) -> None:
        """Decide all requests since the last time, in one transaction."""
        asked, self._queue = self._queue, []
        requests = [request for request in asked if not request.answer.done()]
        try:
            answers = self._commit([request.decide for request in requests])
        except Exception as error:  # noqa: BLE001 - it is everybody's answer
            answers = [error] * len(requests)
        for request, answer in zip(requests, answers, strict=True):
            if isinstance(answer, Exception):
                request.answer.set_exception(answer)
            else:
                request.answer.set_result(answer)

    def _commit(self, decides: Sequence[Decide[Any]]) -> list[tuple[Any, ...] | Exception]:
        """The answers to requests; all grants among them are durable. Raises StoreError, and then nothing
        has changed."""
        now = self.now()
        applied: list[Decision[Any]] = []
        answers: list[tuple[Any, ...] | Exception] = []
        try:
            for decide in decides:
                try:
                    decision = decide(self.table, now)
                except Exception as error:  # noqa: BLE001 - one request's answer; the table is as it was
                    answers.append(error)
                    continue
                self.table.apply(decision)
                applied.append(decision)
                answers.append(decision.outcomes)
            changes = [change for decision in applied for change in decision.changes]
            self._store(changes, now)
        except BaseException:
            for decision in reversed(applied):
                self.table.undo(decision)
            raise
        for listener in self._listeners:
            listener(changes)
        return answers

    def _store(self, changes: Iterable[Change], now: datetime) -> None:
        """Store leases. Waiting lists and offers are not stored: clients of a restarted master ask again."""
        first: dict[Slot, Lease | None] = {}
        last: dict[Slot, Lease | None] = {}
        for change in changes:
            first.setdefault(change.slot, change.before.lease if change.before else None)
            last[change.slot] = change.after.lease if change.after else None
        held = tuple(lease for slot, lease in last.items() if lease is not None and lease != first[slot])
        freed = tuple(slot for slot, lease in last.items() if lease is None and first[slot] is not None)
        if held or freed:
            self._put_leases(held, freed, now)
            reached(FaultPoint.LEASES_STORED)

    def _put_leases(self, held: tuple[Lease, ...], freed: tuple[Slot, ...], now: datetime) -> None:
        """Store changed leases; the first time after a restart all, since all of them have moved."""
        if self._unsaved:
            held = tuple(record.lease for record in self.table.unordered() if record.lease is not None)
            freed = tuple({*freed, *self._unsaved} - {lease.slot for lease in held})
        self._parts.store.put_leases(LeaseUpdate(held, freed, self.table.fencing, now))
        self._unsaved = ()


def _slots_of(status: SiteStatus) -> SiteSlots:
    return SiteSlots(status.slots, reachable=status.state is SiteState.ALIVE, draining=status.draining)


def _site_decision(site: str, slots: SiteSlots) -> Decide[None]:
    return lambda table, now: set_site(table, site, slots, now=now)
