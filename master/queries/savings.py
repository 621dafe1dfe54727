"""What sharing saves: bytes that each query would have sent if it ran alone. Pure.

What a site receives of a channel is counted once by its router, and stands in the progress of every query that uses it
there. The query that received most paid for the transfer; what the others received is what was saved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from master.queries.sharing import deployment_of, is_task
from master.records.model import QueryRecord
from planner.graph.ids import TaskId
from planner.sharing.running import Deployed, Running


@dataclass(frozen=True, slots=True)
class SharedLink:
    """The output of a shared operator over one link."""

    from_site: str
    to_site: str
    bytes: int
    bytes_saved: int


@dataclass(frozen=True, slots=True)
class SharedOperator:
    """A task that several queries need."""

    task_id: TaskId
    kind: str
    site: str
    queries: tuple[str, ...]
    """All queries that need it now, in order of submission."""
    links: tuple[SharedLink, ...]
    bytes_out_per_s: float


@dataclass(frozen=True, slots=True)
class SharedParts:
    """What one query shares with others."""

    mode: str
    start: str
    starts_at_us: int | None
    operators: tuple[SharedOperator, ...]
    bytes_saved: int
    """The bytes that it would have sent over links if it ran alone."""


def shared_operators(records: Sequence[QueryRecord], running: Running) -> tuple[SharedOperator, ...]:
    """The tasks that several queries need now, in order of their ids."""
    shared = [o for o in running.deployed if is_task(o) and len(running.users(o.id)) > 1]
    received = _received(records) if shared else {}
    return tuple(_shared(o, records, running, received) for o in sorted(shared, key=lambda o: o.id))


def shared_parts(record: QueryRecord, records: Sequence[QueryRecord], running: Running) -> SharedParts | None:
    """What one query shares; None when it shares nothing, and nobody may share with it."""
    deployment = deployment_of(record)
    if deployment is None:
        return None
    mine = set(running.needed_by(record.id)) if record.id in running.queries else set()
    shared = [o for o in running.deployed if o.id in mine and is_task(o) and len(running.users(o.id)) > 1]
    received = _received(records)
    progress = record.progress
    starts = [task.starts_at_us for task in progress.tasks.values()]
    starts += [progress.result.starts_at_us] if progress.result is not None else []
    return SharedParts(
        mode=deployment.sharing.value,
        start=deployment.start.value,
        starts_at_us=max((at_us for at_us in starts if at_us is not None), default=None),
        operators=tuple(_shared(o, records, running, received) for o in sorted(shared, key=lambda o: o.id)),
        bytes_saved=sum(_saved_by(record.id, by_query) for by_query in received.values()),
    )


_Received = dict[tuple[TaskId, str, str], dict[str, int]]
"""Bytes by channel and link, and by query in order of submission."""


def _received(records: Iterable[QueryRecord]) -> _Received:
    received: _Received = {}
    for record in records:
        for counter in record.progress.counters:
            if counter.from_site != counter.to_site:
                key = (counter.channel, counter.from_site, counter.to_site)
                received.setdefault(key, {})[record.id] = counter.total_bytes
    return received


def _saved_by(query: str, by_query: dict[str, int]) -> int:
    """The bytes saved; none for the query that paid: the first of those that received most."""
    if query not in by_query:
        return 0
    paid = max(by_query, key=lambda name: by_query[name])
    return 0 if query == paid else by_query[query]


def _shared(one: Deployed, records: Sequence[QueryRecord], running: Running, received: _Received) -> SharedOperator:
    users = running.users(one.id)
    links = [
        SharedLink(source, target, max(by_query.values()), sum(by_query.values()) - max(by_query.values()))
        for (name, source, target), by_query in sorted(received.items())
        if name == one.id
    ]
    statuses = (r.progress.tasks.get(one.id) for r in records if r.id in users)
    return SharedOperator(
        task_id=one.id,
        kind=one.vertex.kind.value,
        site=running.site(one.id),
        queries=tuple(r.id for r in records if r.id in users),
        links=tuple(links),
        bytes_out_per_s=next((s.bytes_out_per_s for s in statuses if s is not None), 0.0),
    )
