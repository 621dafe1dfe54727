"""When the groups of a combining task leave: what it tells the planner, and what it makes of the answer."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from planner.combining.clock import CLOSING_S, InputClock
from planner.combining.early import (
    Held,
    Link,
    OpenWindow,
    crosses_at_once,
    demands_of,
    early_batches,
    leave_in_s,
    onward_s,
)
from planner.combining.fewer import are_worth_combining, is_time_to_combine
from site_agent.channels.codec import encode
from site_agent.channels.log import ChannelLog
from site_agent.tasks.groups import Numbers
from site_agent.tasks.held import HeldGroups, HeldWindow, sorted_by_key
from site_agent.tasks.pool import SILENT_EPOCHS, SendPool
from site_agent.tasks.spec import InputSpec, TaskSpec

WEIGHT = 0.3
"""Of the newest batch in averages."""
TELLING_ROWS = 500
"""A smaller batch says little about the size of a group."""
GUESSED_ROWS = 10_000
"""So many rows are encoded to guess the size of a group, before any are sent."""


@dataclass(frozen=True, slots=True)
class Departure:
    """Groups that leave before their window closes."""

    end_us: int
    groups: Numbers


class Departures:
    """Of one task; all of it is in memory, for any decision does."""

    def __init__(self, spec: TaskSpec, site: str, log: ChannelLog, pool: SendPool) -> None:
        interval_s = spec.epoch_interval.total_seconds()
        self._log = log
        self._pool = pool
        self._site = site
        self._at_home = (site, spec.task_id)
        """The consumers of the channel that are no site elsewhere: what the task keeps for itself is one."""
        delay_us = max((item.event_delay_us for item in spec.inputs), default=0)
        self._clock = InputClock(delay_us, interval_s * 1e6, interval_s)
        self.behind: tuple[str, ...] = ()
        """The channels of other sites that combine."""
        self.read(spec.inputs)
        self._bytes_per_group: float | None = None
        self._is_guess = False
        self._job_s = CLOSING_S
        self._newest_us: int | None = None
        """The end of the newest window that has begun."""
        self._combined_us: int | None = None
        """The end of the last window whose rows were combined before its groups left."""

    def read(self, inputs: Sequence[InputSpec]) -> None:
        """The task reads these from now on."""
        self.behind = tuple(item.channel for item in inputs if item.site != self._site)
        # What other sites combine comes when their windows close.
        self._clock = replace(self._clock, seldom=bool(self.behind))

    def close(self) -> None:
        """The task stops."""
        self._pool.leave(self._log.id)

    def came(self, held: HeldGroups, watermark_us: int | None, now_s: float) -> None:
        """Note an epoch of the input, whose rows are held."""
        if held.windows:
            newest_us, known_us = held.windows[-1].end_us, self._newest_us
            # The first window that is seen may have begun before.
            if known_us is not None and newest_us > known_us:
                self._clock = self._clock.begins(newest_us - held.spec.length_us)
            self._newest_us = newest_us if known_us is None else max(known_us, newest_us)
        self._clock = self._clock.after(watermark_us, now_s)
        for window in held.windows:
            past_us = self._clock.past_us(window.end_us, now_s)
            if past_us is not None:
                window.groups.mark(past_us)

    def left(self, rows: int, size_bytes: int) -> None:
        """Note a batch that was published."""
        if rows >= TELLING_ROWS:
            known = None if self._is_guess else self._bytes_per_group
            newest, self._is_guess = size_bytes / rows, False
            self._bytes_per_group = newest if known is None else (1 - WEIGHT) * known + WEIGHT * newest

    def closed(self, took_s: float) -> None:
        """Note how long the job took that closed windows."""
        self._job_s = (1 - WEIGHT) * self._job_s + WEIGHT * took_s

    def size_of(self, rows: pa.Table) -> float:
        """What these rows are expected to take on the link, in bytes."""
        if self._bytes_per_group is None:
            some = sorted_by_key(rows.slice(0, GUESSED_ROWS))
            size_bytes = len(encode(some).payload)
            self._bytes_per_group, self._is_guess = size_bytes / some.num_rows, True
        return self._bytes_per_group * float(rows.num_rows)

    def epochs_of(self, rows: pa.Table, epoch_bytes: int) -> list[pa.Table]:
        """These rows in pieces of about so many bytes as they are sent; at least one."""
        count = max(1, math.ceil(self.size_of(rows) / epoch_bytes))
        step = math.ceil(rows.num_rows / count)
        return [rows.slice(first, step) for first in range(0, rows.num_rows, step)]

    def due(self, held: HeldGroups, now_s: float) -> Iterator[Departure]:
        """What leaves now. Whoever takes it calls `tell` then."""
        reader, link = self._slowest()
        given = self._given(held, reader, now_s) if link is not None else None
        if link is None or given is None or (self._clock.seldom and not self.onward_s(held)):
            return
        others = self._pool.others(reader, self._log.id, now_s=now_s)
        for batch in early_batches(given, link, others, now_s=now_s):
            groups = held.chosen(batch.end_us, batch.groups)
            if len(groups):
                yield Departure(batch.end_us, groups)

    def is_time_for_fewer(self, held: HeldGroups, now_s: float) -> bool:
        """Return whether the rows of the window that ends first are combined now; whoever asks does it then."""
        reader, link = self._slowest()
        first = next(iter(held.windows), None)
        if first is None or first.end_us == self._combined_us:
            return False
        rows = held.ends_by(first.end_us)
        given = self._given(held, reader, now_s) if are_worth_combining(rows, first.groups.seen) else None
        if given is None or not is_time_to_combine(rows, leave_in_s(given, link)):
            return False
        self._combined_us = first.end_us
        return True

    def are_only_closings(self, held: HeldGroups, now_s: float) -> bool:
        """Return whether no group has to leave before its window closes: the link carries all of them then."""
        if self.behind:
            return False
        reader, link = self._slowest()
        if link is None:
            return True
        if self._bytes_per_group is None:
            return False
        groups = max((held.last_curve.groups, *(window.groups.seen for window in held.windows)))
        others = self._pool.others(reader, self._log.id, now_s=now_s)
        return crosses_at_once(groups * self._bytes_per_group, link, others)

    def tell(self, held: HeldGroups, now_s: float) -> None:
        """Say to the site's other tasks what is left to send."""
        reader, link = self._slowest()
        given = self._given(held, reader, now_s) if link is not None else None
        if link is not None and given is not None:
            until_s = now_s + SILENT_EPOCHS * self._clock.step_s
            self._pool.say(reader, self._log, demands_of(given, link, now_s=now_s), until_s=until_s)

    def onward_s(self, held: HeldGroups) -> float:
        """How long before a window's groups are due at the last reader those of other sites should be here."""
        reader, link = self._slowest()
        size_bytes = held.last_curve.groups * (self._bytes_per_group or 0.0)
        return self._pool.onward_s(reader, self._log) + onward_s(size_bytes, link, self._clock.step_s)

    def _slowest(self) -> tuple[str, Link | None]:
        """Of the links over which the groups are read; None: of none the rate is known."""
        # Sites join and leave while the task runs.
        readers = [name for name in self._log.readers.consumers if name not in self._at_home]
        links = [(reader, self._pool.link(reader, self._log)) for reader in readers]
        known = [(link.bytes_per_s, reader, link) for reader, link in links if link is not None]
        if not known:
            return "", None
        _, reader, link = min(known, key=lambda item: item[0])
        return reader, link

    def _given(self, held: HeldGroups, reader: str, now_s: float) -> Held | None:
        """What the planner is told; None: there is nothing to tell."""
        found = [self._window(window, held, reader, now_s) for window in held.windows]
        windows = tuple(window for window in found if window is not None)
        if not windows:
            return None
        if self._bytes_per_group is None and (rows := held.some_rows()) is not None:
            self.size_of(rows)
        if self._bytes_per_group is None:
            return None
        return Held(windows, self._bytes_per_group, self._clock.step_s, gathers=self._clock.seldom)

    def _window(self, window: HeldWindow, held: HeldGroups, reader: str, now_s: float) -> OpenWindow | None:
        """None: it has no groups to send, or nothing is known of its end."""
        closing, groups = self._clock.closing(window.end_us, now_s, job_s=self._job_s), window.groups
        past_us = self._clock.past_us(window.end_us, now_s)
        if closing is None or past_us is None or not groups.held:
            return None
        earlier_s = self._pool.onward_s(reader, self._log)
        return OpenWindow(
            end_us=window.end_us,
            ends_in_s=closing.ends_in_s,
            due_in_s=max(0.0, closing.due_in_s - earlier_s),
            goes_on=earlier_s > 0,
            seen=groups.seen,
            new_per_s=groups.new_per_epoch / self._clock.step_s,
            again_per_s=groups.again_per_epoch / self._clock.step_s,
            classes=groups.classes(),
            share_seen=held.last_curve.share(past_us),
        )
