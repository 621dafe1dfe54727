"""What runs: the deployed vertices of all queries, who reads what of whom, and where each is.

What a new query is compared with is found by fingerprint, so that queries which have nothing in common with the new one
cost nothing. Vertices that one question cannot tell apart (they run at the same site and read the same) are found as
one.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Self, TypeVar

from planner.graph.ids import TaskId
from planner.sharing.forms import Form
from planner.sharing.vertices import Vertex, VertexKind
from planner.values.links import Pair

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class Deployed:
    """A vertex that is deployed: a task, or the copy of a query's results. `Running` knows where it is."""

    id: TaskId
    vertex: Vertex
    inputs: tuple[TaskId, ...]
    """The tasks whose channels it reads."""
    residual: str = ""
    """SQL over the channel that it reads, where it makes its output of that of another task; else empty."""

    @property
    def fingerprint(self) -> str:
        return self.vertex.fingerprint


@dataclass(slots=True)
class _Readers:
    """Who reads one task's channel."""

    fingerprints: Counter[str] = field(default_factory=Counter)
    sites: Counter[str] = field(default_factory=Counter)
    alike: dict[tuple[str, frozenset[str]], list[TaskId]] = field(default_factory=dict)
    """Ids, sorted, by site and by the fingerprints of all that they read."""

    def copy(self) -> _Readers:
        alike = {group: list(names) for group, names in self.alike.items()}
        return _Readers(self.fingerprints.copy(), self.sites.copy(), alike)


@dataclass(slots=True)
class Running:
    """What runs, to be read only; `measured` and `described` give another value."""

    version: int = 0
    """Counts what has changed, by whoever keeps it: a decision holds for the version that it was made on."""
    _deployed: dict[TaskId, Deployed] = field(default_factory=dict)
    _placement: dict[TaskId, str] = field(default_factory=dict)
    """The site of each of them."""
    _same: dict[str, list[TaskId]] = field(default_factory=dict)
    """Ids, sorted, by fingerprint."""
    _comparable: dict[str, dict[str, list[TaskId]]] = field(default_factory=dict)
    """Ids, sorted, by what their forms are over and by form."""
    _readers: dict[TaskId, _Readers] = field(default_factory=dict)
    _users: dict[TaskId, set[str]] = field(default_factory=dict)
    _used: dict[str, tuple[TaskId, ...]] = field(default_factory=dict)
    """By query, what it needs."""
    _traffic: dict[Pair, float] = field(default_factory=dict)
    """Bytes per second over a link, as expected: what was measured is added when somebody asks."""
    _channels: Counter[Pair] = field(default_factory=Counter)
    """How many channels a link carries."""
    _load: Counter[str] = field(default_factory=Counter)
    """How many are at a site."""
    _measured: dict[TaskId, float] = field(default_factory=dict)
    """Bytes per second of the outputs that were measured; their vertices still have what was expected."""

    def __len__(self) -> int:
        return len(self._deployed)

    @property
    def queries(self) -> frozenset[str]:
        return frozenset(self._used)

    @property
    def deployed(self) -> tuple[Deployed, ...]:
        """All that run, each behind those it reads."""
        return tuple(self._deployed.values())

    @property
    def placement(self) -> Mapping[TaskId, str]:
        """The site of each."""
        return MappingProxyType(self._placement)

    def needed_by(self, query: str) -> tuple[TaskId, ...]:
        """Ids of the tasks that a query needs, those included that it reads through others, inputs first.

        Raises:
            KeyError: there is no such query.
        """
        return self._used[query]

    def task(self, task: TaskId) -> Deployed:
        """Raises KeyError when it does not run."""
        return self._deployed[task]

    def reads(self, task: TaskId, kind: VertexKind) -> bool:
        """Return whether the task reads the channel of a vertex of that kind. Raises KeyError when it does not run."""
        return any(self._deployed[name].vertex.kind is kind for name in self._deployed[task].inputs)

    def users(self, task: TaskId) -> frozenset[str]:
        """The queries that need a task, those included that read it through others."""
        return frozenset(self._users.get(task, ()))

    def load(self, site: str) -> int:
        """How many run at a site."""
        return self._load[site]

    def site(self, task: TaskId) -> str:
        """Where it runs.

        Raises:
            KeyError: it does not.
        """
        return self._placement[task]

    def same(self, fingerprint: str) -> Sequence[TaskId]:
        """Ids of the tasks of that fingerprint, sorted."""
        return tuple(self._same.get(fingerprint, ()))

    def comparable(self, reads: str) -> Iterator[Sequence[TaskId]]:
        """What runs over the same input whose forms are known, those of one form together."""
        yield from self._comparable.get(reads, {}).values()

    def downstream(self, task: TaskId) -> Mapping[str, int]:
        """How many readers of each fingerprint a task has."""
        found = self._readers.get(task)
        return found.fingerprints if found is not None else {}

    def alike_readers(self, task: TaskId, *, but: str) -> Iterator[Deployed]:
        """The readers of a task's channel, without those of one fingerprint.

        Of those that read the same at the same site, only the first by id.
        """
        found = self._readers.get(task)
        for ids in found.alike.values() if found is not None else ():
            others = (self._deployed[name] for name in ids)
            first = next((other for other in others if other.fingerprint != but), None)
            if first is not None:
                yield first

    def inputs_of(self, task: TaskId) -> frozenset[str]:
        """Fingerprints of what a task reads."""
        return frozenset(self._deployed[name].fingerprint for name in self._deployed[task].inputs)

    def made_at(self, fingerprint: str, site: str) -> bool:
        """Whether a task of that fingerprint is at the site."""
        return any(self._placement[name] == site for name in self._same.get(fingerprint, ()))

    def arrives(self, task: TaskId, site: str) -> bool:
        """Whether a task's channel is at a site: it is made there, or its router pulls it."""
        found = self._readers.get(task)
        return self._placement[task] == site or (found is not None and site in found.sites)

    def traffic(self) -> Mapping[Pair, float]:
        """Bytes per second between sites: each channel once for each site that reads it."""
        traffic = dict(self._traffic)
        for name, rate in self._measured.items():
            source, more = self._placement[name], rate - self._deployed[name].vertex.output_bytes_per_s
            for site in self._reading_sites(name) - {source}:
                traffic[source, site] += more
        return traffic

    def output_bytes_per_s(self, task: TaskId) -> float:
        """What a task was measured to send, or else is expected to.

        Raises:
            KeyError: it does not run.
        """
        measured = self._measured.get(task)
        return self._deployed[task].vertex.output_bytes_per_s if measured is None else measured

    def measured_bytes_per_s(self, fingerprint: str) -> float | None:
        """What tasks of that fingerprint were measured to send, the most of several; None: none was measured."""
        return max((self._measured[name] for name in self.same(fingerprint) if name in self._measured), default=None)

    def measured(self, bytes_per_s: Mapping[TaskId, float]) -> Self:
        """The same, with these measured outputs.

        Tasks that are not in the mapping keep theirs, measured or expected; tasks that do not run are passed over.
        """
        rates = {name: rate for name, rate in bytes_per_s.items() if name in self._deployed}
        return replace(self, _measured={**self._measured, **rates})

    def described(self, forms: Mapping[TaskId, Form]) -> Self:
        """The same, where these tasks are found as `comparable` by what they compute; those described before stay.

        Raises:
            KeyError: one of them does not run.
        """
        new = {name: form for name, form in forms.items() if self._deployed[name].vertex.form is None}
        deployed = dict(self._deployed)
        touched = {deployed[name].vertex.reads for name in new}
        copied = {reads: {d: list(ids) for d, ids in self._comparable.get(reads, {}).items()} for reads in touched}
        for name, form in new.items():
            known = deployed[name]
            deployed[name] = replace(known, vertex=replace(known.vertex, form=form))
            insort(copied[known.vertex.reads].setdefault(form.digest, []), name)
        return replace(self, _deployed=deployed, _comparable={**self._comparable, **copied})

    def with_inputs(self, names: Iterable[TaskId]) -> tuple[TaskId, ...]:
        """Tasks and all they read, themselves or through others, inputs first.

        Raises:
            KeyError: there is none of that id.
        """
        found: dict[TaskId, None] = {}
        stack = [(name, False) for name in sorted(set(names), reverse=True)]
        while stack:
            name, done = stack.pop()
            if name in found:
                continue
            if done:
                found[name] = None
                continue
            stack.append((name, True))
            stack += [(other, False) for other in reversed(self._deployed[name].inputs)]
        return tuple(found)

    def _reading_sites(self, name: TaskId) -> set[str]:
        found = self._readers.get(name)
        return set(found.sites) if found is not None else set()

    def _group(self, name: TaskId) -> tuple[str, frozenset[str]]:
        return self._placement[name], self.inputs_of(name)


@dataclass(slots=True)
class MutableRunning(Running):
    """What runs while it is put together; whoever has done so hands it on as `Running`."""

    _own: set[tuple[str, object]] = field(default_factory=set, compare=False, repr=False)
    """What is not shared with the value that this was copied from: names of tables, and keys in them."""

    @classmethod
    def copy_of(cls, running: Running, *, version: int) -> Self:
        """What runs, to be changed; the other stays as it is. Takes time for each task, but little."""
        tables = {name: table.copy() for name in _TABLES if (table := getattr(running, name)) is not None}
        return cls(version, **tables)

    def add(
        self, query: str, deployed: Iterable[Deployed], placement: Mapping[TaskId, str], used: Iterable[TaskId] = ()
    ) -> None:
        """Take in what a query deploys.

        Args:
            query: its id.
            deployed: what is new, each behind those it reads.
            placement: where each of these is, and may be others.
            used: running tasks of others that the query reads, or that stand for vertices of it.

        Raises:
            ValueError: the query is known already, or something reads what is not.
        """
        if query in self._used:
            raise ValueError(f"query {query} runs already")
        new = tuple(deployed)
        for one in new:
            self._enter(one, placement[one.id])
        needed = self.with_inputs((*(one.id for one in new), *used))
        self._used[query] = needed
        for name in needed:
            users: set[str] = self._owned("_users", name, set)
            users.add(query)

    def remove(self, query: str) -> tuple[TaskId, ...]:
        """Forget a query; ids of the tasks that end with it, readers first, for no other query needs them.

        Raises:
            KeyError: there is no such query.
        """
        ended = []
        for name in self._used.pop(query):
            users: set[str] = self._owned("_users", name, set)
            users.discard(query)
            if not users:
                ended.append(name)
        for name in reversed(ended):
            self._leave(name)
        return tuple(reversed(ended))

    def _enter(self, one: Deployed, site: str) -> None:
        missing = [name for name in one.inputs if name not in self._deployed]
        if missing or one.id in self._deployed:
            raise ValueError(f"task {one.id} {f'reads {missing[0]}, unknown' if missing else 'runs already'}")
        self._deployed[one.id] = one
        self._placement[one.id] = site
        self._load[site] += 1
        insort(self._owned("_same", one.fingerprint, list), one.id)
        if one.vertex.form is not None:
            insort(self._forms(one.vertex.reads).setdefault(one.vertex.form.digest, []), one.id)
        group = self._group(one.id)
        for name in one.inputs:
            readers = self._owned("_readers", name, _Readers)
            readers.fingerprints[one.fingerprint] += 1
            readers.sites[site] += 1
            insort(readers.alike.setdefault(group, []), one.id)
            if readers.sites[site] == 1:
                self._carry(name, site, 1)

    def _leave(self, name: TaskId) -> None:
        one, site = self._deployed[name], self._placement[name]
        group = self._group(name)
        for source in one.inputs:
            readers = self._owned("_readers", source, _Readers)
            _take(readers.fingerprints, one.fingerprint)
            _take(readers.sites, site)
            _drop(readers.alike, group, name)
            if not readers.sites[site]:
                self._carry(source, site, -1)
            if not readers.fingerprints:
                del self._readers[source]
        self._owned("_same", one.fingerprint, list)
        _drop(self._same, one.fingerprint, name)
        if one.vertex.form is not None:
            forms = self._forms(one.vertex.reads)
            _drop(forms, one.vertex.form.digest, name)
            if not forms:
                del self._comparable[one.vertex.reads]
        _take(self._load, site)
        self._measured.pop(name, None)
        del self._deployed[name], self._users[name], self._placement[name]

    def _owned(self, table: str, key: object, new: Callable[[], _Value]) -> _Value:
        """The entry of a table, copied before its first change when others have it too."""
        entries: dict[object, Any] = getattr(self, table)
        if (table, key) not in self._own or key not in entries:
            entries[key] = entries[key].copy() if key in entries else new()
            self._own.add((table, key))
        found: _Value = entries[key]
        return found

    def _forms(self, reads: str) -> dict[str, list[TaskId]]:
        """The entry of `comparable`, likewise."""
        if ("_comparable", reads) not in self._own or reads not in self._comparable:
            known = self._comparable.get(reads, {})
            self._comparable[reads] = {digest: list(names) for digest, names in known.items()}
            self._own.add(("_comparable", reads))
        return self._comparable[reads]

    def _carry(self, name: TaskId, site: str, sign: int) -> None:
        """A channel begins (1) or ends (-1) to be pulled by a site."""
        pair = (self._placement[name], site)
        if pair[0] == site:
            return
        self._channels[pair] += sign
        self._traffic[pair] = self._traffic.get(pair, 0.0) + sign * self._deployed[name].vertex.output_bytes_per_s
        if not self._channels[pair]:
            del self._channels[pair], self._traffic[pair]


_TABLES = tuple(item.name for item in fields(Running) if item.name != "version")


def as_measured(vertices: Iterable[Vertex], running: Running) -> tuple[Vertex, ...]:
    """Vertices with the output that was measured of tasks that do the same, where such run."""
    rates = ((vertex, running.measured_bytes_per_s(vertex.fingerprint)) for vertex in vertices)
    return tuple(v if rate is None else replace(v, output_bytes_per_s=rate) for v, rate in rates)


def _take(counter: Counter[str], key: str) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]


def _drop(lists: dict[_Key, list[TaskId]], key: _Key, name: TaskId) -> None:
    names = lists[key]
    del names[bisect_left(names, name)]
    if not names:
        del lists[key]
