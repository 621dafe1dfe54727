"""All operators that run, and who reads what of whom: what a new query is compared with.

Everything is found by fingerprint, so that queries which have nothing in common with the new one cost nothing.
Operators that one question cannot tell apart (they run at the same site and read the same) are found as one.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from planner.graph.ids import TaskId
from planner.sharing.forms import Form
from planner.sharing.vertices import Vertex
from planner.wan.probing import Pair

_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True)
class Operator:
    """A vertex that is deployed."""

    id: TaskId
    vertex: Vertex
    site: str
    inputs: tuple[TaskId, ...]
    """The operators whose channels it reads."""
    residual: str = ""
    """SQL over the channel that it reads, where it makes its output of that of another operator; else empty."""

    @property
    def fingerprint(self) -> str:
        return self.vertex.fingerprint


@dataclass(slots=True)
class _Readers:
    """Who reads one operator's channel."""

    fingerprints: Counter[str] = field(default_factory=Counter)
    sites: Counter[str] = field(default_factory=Counter)
    alike: dict[tuple[str, frozenset[str]], list[TaskId]] = field(default_factory=dict)
    """Ids, sorted, by site and by the fingerprints of all that they read."""


@dataclass(slots=True)
class Running:
    """Grows and shrinks with the queries; the only value here that changes."""

    _operators: dict[TaskId, Operator] = field(default_factory=dict)
    _same: dict[str, list[TaskId]] = field(default_factory=dict)
    """Ids, sorted, by fingerprint."""
    _comparable: dict[str, dict[str, list[TaskId]]] = field(default_factory=dict)
    """Ids, sorted, by what their forms are over and by form."""
    _readers: dict[TaskId, _Readers] = field(default_factory=dict)
    _users: dict[TaskId, set[str]] = field(default_factory=dict)
    _used: dict[str, tuple[TaskId, ...]] = field(default_factory=dict)
    """By query."""
    _traffic: dict[Pair, float] = field(default_factory=dict)
    _channels: Counter[Pair] = field(default_factory=Counter)
    """How many channels a link carries."""
    _load: Counter[str] = field(default_factory=Counter)
    """Operators by site."""
    _measured: set[TaskId] = field(default_factory=set)
    """Ids of the operators whose output was measured; of the others it is what was expected of them."""

    def __len__(self) -> int:
        return len(self._operators)

    @property
    def queries(self) -> frozenset[str]:
        return frozenset(self._used)

    @property
    def operators(self) -> tuple[Operator, ...]:
        """All that run, each behind those it reads."""
        return tuple(self._operators.values())

    def needed_by(self, query: str) -> tuple[TaskId, ...]:
        """Ids of the operators that a query needs, those included that it reads through others, inputs first.

        Raises:
            KeyError: there is no such query.
        """
        return self._used[query]

    def operator(self, operator: TaskId) -> Operator:
        """Raises KeyError when there is none."""
        return self._operators[operator]

    def users(self, operator: TaskId) -> frozenset[str]:
        """The queries that need an operator, those included that read it through others."""
        return frozenset(self._users.get(operator, ()))

    def load(self, site: str) -> int:
        """How many operators run at a site."""
        return self._load[site]

    def describe(self, operator: TaskId, form: Form) -> None:
        """Say what an operator computes, where it was added without: from now on it is found as `comparable`.

        Raises:
            KeyError: there is no such operator.
        """
        known = self._operators[operator]
        if known.vertex.form is None:
            self._operators[operator] = replace(known, vertex=replace(known.vertex, form=form))
            self._compare(self._operators[operator])

    def same(self, fingerprint: str) -> Sequence[TaskId]:
        """Ids of the operators of that fingerprint, sorted."""
        return tuple(self._same.get(fingerprint, ()))

    def comparable(self, reads: str) -> Iterator[Sequence[TaskId]]:
        """Operators over the same input whose forms are known, those of one form together."""
        yield from self._comparable.get(reads, {}).values()

    def downstream(self, operator: TaskId) -> Mapping[str, int]:
        """How many readers of each fingerprint an operator has."""
        found = self._readers.get(operator)
        return found.fingerprints if found is not None else {}

    def alike_readers(self, operator: TaskId, *, but: str) -> Iterator[Operator]:
        """The readers of an operator's channel, without those of one fingerprint.

        Of those that read the same at the same site, only the first by id.
        """
        found = self._readers.get(operator)
        for ids in found.alike.values() if found is not None else ():
            others = (self._operators[name] for name in ids)
            first = next((other for other in others if other.fingerprint != but), None)
            if first is not None:
                yield first

    def inputs_of(self, operator: TaskId) -> frozenset[str]:
        """Fingerprints of what an operator reads."""
        return frozenset(self._operators[name].fingerprint for name in self._operators[operator].inputs)

    def made_at(self, fingerprint: str, site: str) -> bool:
        """Whether an operator of that fingerprint is at the site."""
        return any(self._operators[name].site == site for name in self._same.get(fingerprint, ()))

    def arrives(self, operator: TaskId, site: str) -> bool:
        """Whether an operator's channel is at a site: it is made there, or its router pulls it."""
        found = self._readers.get(operator)
        return self._operators[operator].site == site or (found is not None and site in found.sites)

    def traffic(self) -> Mapping[Pair, float]:
        """Bytes per second between sites: each channel once for each site that reads it."""
        return dict(self._traffic)

    def measured_bytes_per_s(self, fingerprint: str) -> float | None:
        """What operators of that fingerprint were measured to send, the most of several; None: none was measured."""
        measured = (self._operators[name] for name in self.same(fingerprint) if name in self._measured)
        return max((operator.vertex.output_bytes_per_s for operator in measured), default=None)

    def measure(self, bytes_per_s: Mapping[TaskId, float]) -> None:
        """Take the measured output of operators, by id, in the place of what was expected of them.

        What is not in it stays as it is, and operators that do not run are passed over.
        """
        for name, rate in bytes_per_s.items():
            operator = self._operators.get(name)
            if operator is None:
                continue
            for site in self._reading_sites(name) - {operator.site}:
                self._traffic[operator.site, site] += rate - operator.vertex.output_bytes_per_s
            self._operators[name] = replace(operator, vertex=replace(operator.vertex, output_bytes_per_s=rate))
            self._measured.add(name)

    def add(self, query: str, operators: Iterable[Operator], used: Iterable[TaskId]) -> None:
        """Take in what a query deploys.

        Args:
            query: its id.
            operators: the new ones, each behind those it reads.
            used: ids of running operators that stand for vertices of the query.

        Raises:
            ValueError: the query is known already, or an operator reads one that is not.
        """
        if query in self._used:
            raise ValueError(f"query {query} runs already")
        new = tuple(operators)
        for operator in new:
            self._enter(operator)
        needed = self.with_inputs((*(operator.id for operator in new), *used))
        self._used[query] = needed
        for name in needed:
            self._users.setdefault(name, set()).add(query)

    def remove(self, query: str) -> tuple[TaskId, ...]:
        """Forget a query; ids of the operators that end with it, readers first, for no other query needs them.

        Raises:
            KeyError: there is no such query.
        """
        ended = []
        for name in self._used.pop(query):
            self._users[name].discard(query)
            if not self._users[name]:
                ended.append(name)
        for name in reversed(ended):
            self._leave(name)
        return tuple(reversed(ended))

    def with_inputs(self, names: Iterable[TaskId]) -> tuple[TaskId, ...]:
        """Operators and all they read, themselves or through others, inputs first.

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
            stack += [(other, False) for other in reversed(self._operators[name].inputs)]
        return tuple(found)

    def _enter(self, operator: Operator) -> None:
        missing = [name for name in operator.inputs if name not in self._operators]
        if missing or operator.id in self._operators:
            raise ValueError(f"operator {operator.id} {f'reads {missing[0]}, unknown' if missing else 'runs already'}")
        self._operators[operator.id] = operator
        self._load[operator.site] += 1
        insort(self._same.setdefault(operator.fingerprint, []), operator.id)
        self._compare(operator)
        group = self._group(operator)
        for name in operator.inputs:
            readers = self._readers.setdefault(name, _Readers())
            readers.fingerprints[operator.fingerprint] += 1
            readers.sites[operator.site] += 1
            insort(readers.alike.setdefault(group, []), operator.id)
            if readers.sites[operator.site] == 1:
                self._carry(name, operator.site, 1)

    def _compare(self, operator: Operator) -> None:
        form = operator.vertex.form
        if form is not None:
            insort(self._comparable.setdefault(operator.vertex.reads, {}).setdefault(form.digest, []), operator.id)

    def _leave(self, name: TaskId) -> None:
        operator = self._operators[name]
        group = self._group(operator)
        for source in operator.inputs:
            readers = self._readers[source]
            _take(readers.fingerprints, operator.fingerprint)
            _take(readers.sites, operator.site)
            _drop(readers.alike, group, name)
            if not readers.sites[operator.site]:
                self._carry(source, operator.site, -1)
            if not readers.fingerprints:
                del self._readers[source]
        _drop(self._same, operator.fingerprint, name)
        form = operator.vertex.form
        if form is not None:
            forms = self._comparable[operator.vertex.reads]
            _drop(forms, form.digest, name)
            if not forms:
                del self._comparable[operator.vertex.reads]
        _take(self._load, operator.site)
        self._measured.discard(name)
        del self._operators[name], self._users[name]

    def _reading_sites(self, name: TaskId) -> set[str]:
        found = self._readers.get(name)
        return set(found.sites) if found is not None else set()

    def _group(self, operator: Operator) -> tuple[str, frozenset[str]]:
        return operator.site, self.inputs_of(operator.id)

    def _carry(self, name: TaskId, site: str, sign: int) -> None:
        """A channel begins (1) or ends (-1) to be pulled by a site."""
        source = self._operators[name]
        if source.site == site:
            return
        pair = (source.site, site)
        self._channels[pair] += sign
        self._traffic[pair] = self._traffic.get(pair, 0.0) + sign * source.vertex.output_bytes_per_s
        if not self._channels[pair]:
            del self._channels[pair], self._traffic[pair]


def as_measured(vertices: Iterable[Vertex], running: Running) -> tuple[Vertex, ...]:
    """Vertices with the output that was measured of operators that do the same, where such run."""
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
