"""Sessions of Spark's clients: names, settings and operations, each of one principal's; nothing of them is stored."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from master.access.caller import caller
from master.base.errors import LimitExceededError, UnknownHandleError
from master.connect.operations import Operation
from master.records.ids import RandomHex

SESSIONS = 100
"""The most sessions of a principal."""
VIEW_BYTES = 16 * 1024 * 1024
"""The most that the plans of a session's views may take."""
CACHED = 1000
"""The most plans and tables that a session caches."""
OPERATIONS = 100
"""The most operations of a session at a time."""
IDLE_S = 3600.0
"""A session that nothing was asked of for so long ends."""
DETACHED_S = 120.0
"""An operation that nobody has read for so long ends."""


@dataclass(slots=True)
class Session:
    """Holds the state of a client's session."""

    id: str
    server_id: str
    """It identifies the session here: a session of the same id that is made later has another."""
    site: str = ""
    """The site where its plans run; empty: where it takes the fewest bytes."""
    settings: dict[str, str] = field(default_factory=dict)
    views: dict[str, Any] = field(default_factory=dict)
    """Relations that were checked and read no other view, by lower-case name."""
    operations: dict[str, Operation] = field(default_factory=dict)
    cached_plans: set[bytes] = field(default_factory=set)
    """Digests of the plans that the client persists."""
    cached_tables: set[str] = field(default_factory=set)
    """Lower-case names of the tables and views that it caches."""
    used_s: float = 0.0

    @property
    def caches(self) -> bool:
        """Return True while sites are to reuse rows that they made or received for the session's plans."""
        return bool(self.cached_plans or self.cached_tables)

    def persist(self, relation: Any) -> None:
        """Cache a plan. Raises LimitExceededError."""
        self._check_cached()
        self.cached_plans.add(_digest(relation))

    def unpersist(self, relation: Any) -> None:
        """Cache a plan no more."""
        self.cached_plans.discard(_digest(relation))

    def is_persisted(self, relation: Any) -> bool:
        """Return whether the plan is cached."""
        return _digest(relation) in self.cached_plans

    def cache_table(self, name: str) -> None:
        """Cache a table or view. Raises LimitExceededError."""
        self._check_cached()
        self.cached_tables.add(name)

    def clear_cache(self) -> None:
        """Cache nothing."""
        self.cached_plans.clear()
        self.cached_tables.clear()

    def _check_cached(self) -> None:
        if len(self.cached_plans) + len(self.cached_tables) >= CACHED:
            raise LimitExceededError(
                f"a session caches {CACHED} plans and tables at most", hint="spark.catalog.clearCache()"
            )

    def add_view(self, name: str, relation: Any) -> None:
        """Add a view, or replace the one of that name. Raises LimitExceededError."""
        others = sum(view.ByteSize() for other, view in self.views.items() if other != name.lower())
        if others + relation.ByteSize() > VIEW_BYTES:
            raise LimitExceededError(
                f"the temporary views of a session may take {VIEW_BYTES} bytes",
                hint="drop others: spark.catalog.dropTempView(name)",
            )
        self.views[name.lower()] = relation

    def begin(self, operation: Operation) -> None:
        """Add an operation. Raises LimitExceededError."""
        for old in [key for key, value in self.operations.items() if value.over and not value.readers]:
            if len(self.operations) >= OPERATIONS:
                del self.operations[old]
        if len(self.operations) >= OPERATIONS:
            raise LimitExceededError(f"a session has {OPERATIONS} operations at most at a time", hint="wait for some")
        self.operations[operation.id] = operation

    def operation(self, name: str) -> Operation:
        """The operation of that id. Raises UnknownHandleError."""
        found = self.operations.get(name)
        if found is None:
            raise UnknownHandleError(
                f"INVALID_HANDLE.OPERATION_NOT_FOUND: there is no operation {name[:80]}",
                hint="execute the plan again",
                ids={"condition": "INVALID_HANDLE.OPERATION_NOT_FOUND"},
            )
        return found


class Sessions:
    """All sessions; `steady_s` is a clock that never goes back."""

    def __init__(self, steady_s: Callable[[], float], random_hex: RandomHex) -> None:
        self._steady_s = steady_s
        self._random_hex = random_hex
        self._all: dict[tuple[str, str], Session] = {}

    def get(self, session: str, server_id: str, site: str) -> Session:
        """The caller's session of that id, a new one if there is none.

        Args:
            session: the id that the client chose.
            server_id: what the client was told of it before; empty: nothing.
            site: where its plans are to run, as the client says with each call.

        Raises:
            UnknownHandleError: the client had a session that is gone.
            LimitExceededError: the caller has too many.
        """
        key = (caller().name, session)
        found = self._all.get(key)
        if server_id and (found is None or found.server_id != server_id):
            raise UnknownHandleError(
                "the session is gone: it was idle for an hour, was ended, or the master was restarted",
                hint="make a new session: SparkSession.builder.remote(...).create()",
                ids={"condition": "INVALID_HANDLE.SESSION_CHANGED"},
            )
        if found is None:
            self._check_number(key[0])
            found = self._all[key] = Session(session, self.new_id(), site)
        found.used_s = self._steady_s()
        return found

    def new_id(self) -> str:
        """An id that nobody guesses."""
        return self._random_hex(32)

    def clone(self, session: Session, name: str) -> Session:
        """A session with the names and settings of another. Raises LimitExceededError."""
        self._check_number(caller().name)
        made = Session(name, self.new_id(), session.site, settings=dict(session.settings), views=dict(session.views))
        made.used_s = self._steady_s()
        self._all[caller().name, name] = made
        return made

    async def end(self, session: str) -> None:
        """End the caller's session of that id, if there is one, with its operations."""
        found = self._all.pop((caller().name, session), None)
        if found is not None:
            await _close(found)

    async def tick(self) -> None:
        """End what nobody has used for long."""
        now_s = self._steady_s()
        for session in self._all.values():
            for key, operation in list(session.operations.items()):
                if operation.readers:
                    continue
                if operation.left_s is None:
                    operation.left_s = now_s
                elif now_s - operation.left_s > DETACHED_S:
                    del session.operations[key]
                    await operation.close()
        idle = [name for name, s in self._all.items() if now_s - s.used_s > IDLE_S and not s.operations]
        for name in idle:
            del self._all[name]

    async def close(self) -> None:
        """End all sessions."""
        sessions, self._all = list(self._all.values()), {}
        for session in sessions:
            await _close(session)

    def __iter__(self) -> Iterator[Session]:
        return iter(self._all.values())

    def _check_number(self, principal: str) -> None:
        if sum(owner == principal for owner, _ in self._all) >= SESSIONS:
            raise LimitExceededError(
                f"there are {SESSIONS} sessions already, and no more are possible",
                hint="end some: spark.stop()",
            )


async def _close(session: Session) -> None:
    operations: Mapping[str, Operation] = session.operations
    for operation in list(operations.values()):
        await operation.close()
    session.operations.clear()


def _digest(relation: Any) -> bytes:
    return hashlib.sha256(relation.SerializeToString(deterministic=True)).digest()
