"""Which operators a vertex can be shared with, and which sharing would contend for links: algorithm 1 of Sana.

For a vertex v of a new query and an operator w that runs, with B_in and B_out the ingress and egress that w's site has
to spare, D the readers, I the inputs and O the output, all rates in bytes per second:

    IN-OP  same inputs, same function     kept if B_out > |D_v u D_w| / |D_w| * O_v
    IN     an input in common             kept if B_out > O_v and B_in > rate of (I_v - I_w)

Readers and inputs are told apart by fingerprint. Of I_v - I_w, what is made at w's site takes no ingress and is not
counted. An operator without readers counts as having one, whoever takes its results.

The source compares the vertices of all queries from the sources on, and stops below the first pair that differs. Here
a fingerprint holds all that is upstream, so one look-up does for the whole of it: where an input of a vertex is
unknown, so is the vertex, and where all are unknown nothing can be shared with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

from planner.sharing.modes import Rules
from planner.sharing.running import Deployed, Running
from planner.sharing.vertices import Vertex
from planner.sharing.wan import Wan


class Share(Enum):
    IN_OP = "IN-OP"
    IN = "IN"


@dataclass(frozen=True, slots=True)
class Asked:
    """A vertex of a new query with what surrounds it."""

    vertex: Vertex
    inputs: Mapping[str, float]
    """Bytes per second by fingerprint of what it reads."""
    readers: frozenset[str] = frozenset()
    """Fingerprints of its readers."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An operator with which a vertex can be shared."""

    operator: Deployed
    site: str
    """Where that runs."""
    share: Share
    shared_bytes_per_s: float
    """Of the inputs that both have."""
    obstacle: str = ""
    """Why it is not to be taken; empty when it is."""


@dataclass(frozen=True, slots=True)
class Candidates:
    """All operators that share something with a vertex."""

    in_op: tuple[Candidate, ...] = ()
    in_: tuple[Candidate, ...] = ()
    rejected: tuple[Candidate, ...] = ()
    compared: int = 0
    """Operators that were looked at."""


@dataclass(slots=True)
class Room:
    """What sites have to spare, each summed up once for a query."""

    wan: Wan
    _egress: dict[str, float] = field(default_factory=dict)
    _ingress: dict[str, float] = field(default_factory=dict)

    def egress(self, site: str) -> float:
        if site not in self._egress:
            self._egress[site] = self.wan.egress(site)
        return self._egress[site]

    def ingress(self, site: str) -> float:
        if site not in self._ingress:
            self._ingress[site] = self.wan.ingress(site)
        return self._ingress[site]


def find_candidates(asked: Asked, running: Running, room: Room, rules: Rules) -> Candidates:
    """Algorithm 1 for one vertex; of operators that read the same at the same site, only the first by id is named."""
    found = [*_in_op(asked, running, room, rules), *_in(asked, running, room, rules)]
    kept = [candidate for candidate in found if not candidate.obstacle]
    return Candidates(
        in_op=tuple(c for c in kept if c.share is Share.IN_OP),
        in_=tuple(c for c in kept if c.share is Share.IN),
        rejected=tuple(c for c in found if c.obstacle),
        compared=len(found),
    )


def _in_op(asked: Asked, running: Running, room: Room, rules: Rules) -> Iterator[Candidate]:
    if not rules.operators:
        return
    rate = asked.vertex.output_bytes_per_s
    for name in running.same(asked.vertex.fingerprint):
        operator, site = running.task(name), running.site(name)
        readers = running.downstream(name)
        more = sum(reader not in readers for reader in asked.readers)
        needed = (len(readers) + more) / max(len(readers), 1) * rate
        obstacle = _too_much_to_send(site, needed, room) if rules.checked else ""
        yield Candidate(operator, site, Share.IN_OP, sum(asked.inputs.values()), obstacle)


def _in(asked: Asked, running: Running, room: Room, rules: Rules) -> Iterator[Candidate]:
    """Readers of operators of the inputs' fingerprints, but for those that are the same themselves."""
    if not rules.inputs or asked.vertex.pinned is not None:
        return
    seen: dict[tuple[str, frozenset[str]], Deployed] = {}
    sources = [name for fingerprint in sorted(asked.inputs) for name in running.same(fingerprint)]
    for reader in (r for name in sources for r in running.alike_readers(name, but=asked.vertex.fingerprint)):
        group = (running.site(reader.id), running.inputs_of(reader.id))
        if group not in seen or reader.id < seen[group].id:
            seen[group] = reader
    for (site, _), reader in sorted(seen.items(), key=lambda item: item[1].id):
        yield _with_input(asked, reader, site, running, room if rules.checked else None)


def _with_input(asked: Asked, reader: Deployed, site: str, running: Running, room: Room | None) -> Candidate:
    inputs = running.inputs_of(reader.id)
    shared = sum(rate for fingerprint, rate in asked.inputs.items() if fingerprint in inputs)
    lacking = (fp for fp in asked.inputs if fp not in inputs and not running.made_at(fp, site))
    missing = sum(asked.inputs[fingerprint] for fingerprint in lacking)
    rate = asked.vertex.output_bytes_per_s
    obstacle = ""
    if room is not None:
        obstacle = _too_much_to_send(site, rate, room) or _too_much_to_receive(site, missing, room)
    return Candidate(reader, site, Share.IN, shared, obstacle)


def _too_much_to_send(site: str, bytes_per_s: float, room: Room) -> str:
    spare = room.egress(site)
    return "" if spare > bytes_per_s else f"{site} has no room to send {_rate(bytes_per_s)}, {_rate(spare)} are spare"


def _too_much_to_receive(site: str, bytes_per_s: float, room: Room) -> str:
    spare = room.ingress(site)
    if spare > bytes_per_s:
        return ""
    return f"{site} has no room to receive {_rate(bytes_per_s)}, {_rate(spare)} are spare"


def _rate(bytes_per_s: float) -> str:
    return f"{bytes_per_s:.0f} bytes/s"
