"""Where the vertices of a new query go, beside all that runs: algorithm 2 of Sana.

Vertex by vertex, each behind those it reads:

    1. an operator of the same fingerprint (IN-OP)   v is not deployed; its readers read the operator
       an operator that contains it                  v reads the operator's output, and does what is left
    2. an operator that reads the same (IN)          v goes to its site, behind the same router
    3. all inputs at one site                        v goes there
    4. else                                          v goes where the sum over the links to its inputs of
                                                     rate * latency^2 / spare bandwidth is least, of the sites whose
                                                     links have room for its inputs, where there are such

Of several candidates the one that shares most is taken, or for the goal of latency the nearest; ties go to the first
by id. What only fed vertices that turned out to be shared is not deployed. A channel that a site receives already is
read from there, whoever asked for it first.

An operator stands for one vertex of a query only: a UNION ALL of a stream with itself needs its rows twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import islice

import networkx

from planner.graph import operators as graph
from planner.graph.ids import TaskId, VertexId
from planner.sharing.candidates import Asked, Candidate, Candidates, Room, find_candidates
from planner.sharing.containment import left_to_do, residual_of
from planner.sharing.forms import Form
from planner.sharing.modes import Goal, Sharing
from planner.sharing.running import Deployed, MutableRunning, Running
from planner.sharing.vertices import Vertex, VertexKind
from planner.sharing.wan import Wan
from planner.text.spark import spark_sql
from planner.values.errors import PlacementError
from planner.wan.probing import Pair

MAX_FORMS = 64
"""So many forms over the same input are looked at for one that contains a vertex; those beyond are passed over."""


class Action(Enum):
    """What becomes of a vertex."""

    SHARED = "shared"
    """IN-OP: a running operator stands for it."""
    CONTAINED = "contained"
    """It is made of the output of a running operator."""
    CO_LOCATED = "co-located"
    """IN: it goes where some of its inputs arrive already."""
    PINNED = "pinned"
    """Its site is given by the data, or by where the results are wanted."""
    LOCAL = "local"
    """All its inputs are at one site."""
    PLACED = "placed"
    """By cost, or in a mode that is blind to the WAN at the site of an input."""
    UNNEEDED = "unneeded"
    """All that would read it is shared."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of one vertex, and why."""

    vertex: VertexId
    action: Action
    site: str
    operator: TaskId | None
    """The running operator that it is shared with, made of, or put beside; None when there is none."""
    reason: str
    edges: tuple[VertexId, ...] = ()
    """Of a shared vertex: its readers that the operator lacks (D_v without D_w)."""
    rejected: tuple[Candidate, ...] = ()
    """What would have contended for links."""
    others: tuple[Candidate, ...] = ()
    """What could have been taken as well, and shares no more."""

    @property
    def query(self) -> str:
        """The running query of the operator; empty when there is none."""
        return self.operator.query if self.operator is not None else ""


@dataclass(frozen=True, slots=True)
class SharingPlan:
    """A new query among the running ones: what is deployed and what is used."""

    query: str
    sharing: Sharing
    decisions: tuple[Decision, ...]
    deployed: tuple[Deployed, ...]
    """What is new, each behind those it reads."""
    used: tuple[TaskId, ...]
    """Ids of running operators that stand for vertices of the query, or that its operators read; sorted."""
    traffic: Mapping[Pair, float]
    """Bytes per second that the query adds between sites."""
    compared: int
    """Running operators that were looked at."""

    @property
    def placement(self) -> Mapping[TaskId, str]:
        """The site of each that is new."""
        sites = {decision.vertex: decision.site for decision in self.decisions}
        return {one.id: sites[one.vertex.id] for one in self.deployed}

    @property
    def wan_bytes_per_s(self) -> float:
        return sum(self.traffic.values())

    def decision(self, vertex: VertexId) -> Decision:
        """Raises KeyError when there is no such vertex."""
        for decision in self.decisions:
            if decision.vertex == vertex:
                return decision
        raise KeyError(vertex)


@dataclass(frozen=True, slots=True)
class Setting:
    """What a query is planned in."""

    running: Running
    wan: Wan
    alive: frozenset[str]
    """Sites that can take tasks."""
    sharing: Sharing = Sharing.SANA
    goal: Goal = Goal.BYTES
    open_sites: frozenset[str] | None = None
    """Sites that take vertices which are not bound to one; None: all that are alive."""
    placed: Mapping[VertexId, str] = field(default_factory=dict)
    """By vertex, where the caller wants it when it is not shared, in place of steps 3 and 4; not for modes that are
    blind to the WAN."""
    keeps_room: bool = True
    """Placement prefers sites whose links have room for a vertex's inputs. False: placement goes by cost alone, as in
    the published algorithm; `simulator` shows the difference."""


def share(query: str, vertices: Sequence[Vertex], setting: Setting) -> SharingPlan:
    """The plan of a new query; nothing that runs is changed.

    Args:
        query: its id.
        vertices: each behind those it reads.
        setting: what runs, and the state of the links.

    Raises:
        PlacementError: no site that is alive can take a vertex.
    """
    scheduler = _Scheduler(query, {vertex.id: vertex for vertex in vertices}, setting, Room(setting.wan))
    for vertex in vertices:
        scheduler.decide(vertex)
    return scheduler.plan()


def deploy(plan: SharingPlan, running: MutableRunning) -> None:
    """Take a plan into what runs.

    Raises:
        ValueError: the query runs already, or an operator that it uses has ended.
    """
    running.add(plan.query, plan.deployed, plan.placement, plan.used)


@dataclass(slots=True)
class _Choice:
    """What was decided for a vertex, before it is known who really reads whom."""

    decision: Decision
    supplier: TaskId
    """The operator that gives its output."""
    reads: tuple[TaskId, ...] = ()
    """Ids of its vertices' suppliers, or of the operator that contains it; none for a shared one."""
    residual: graph.Operator | None = None


@dataclass(slots=True)
class _Scheduler:
    query: str
    vertices: Mapping[VertexId, Vertex]
    setting: Setting
    room: Room
    readers: dict[VertexId, list[VertexId]] = field(default_factory=dict)
    choices: dict[VertexId, _Choice] = field(default_factory=dict)
    taken: set[TaskId] = field(default_factory=set)
    """Running operators that stand for a vertex already."""
    residuals: dict[tuple[str, Form | None, tuple[str, ...]], graph.Operator | None] = field(default_factory=dict)
    """What is left to do, by stage of the query, form and types of an operator; None where it does not contain it."""
    compared: int = 0

    def __post_init__(self) -> None:
        for vertex in self.vertices.values():
            for name in vertex.inputs:
                self.readers.setdefault(name, []).append(vertex.id)

    def decide(self, vertex: Vertex) -> None:
        """Algorithm 2 for one vertex; those that it reads are decided."""
        asked = self._asked(vertex)
        found = find_candidates(asked, self.setting.running, self.room, self.setting.sharing.rules)
        self.compared += found.compared
        usable = [candidate for candidate in found.in_op if self._is_free(candidate.operator.id)]
        if usable:
            self._share(asked, self._best(usable, vertex), found)
        elif not self._contain(asked, found):
            self._deploy(asked, found)

    def _asked(self, vertex: Vertex) -> Asked:
        inputs = {self.vertices[name].fingerprint: self.vertices[name].output_bytes_per_s for name in vertex.inputs}
        readers = frozenset(self.vertices[name].fingerprint for name in self.readers.get(vertex.id, ()))
        return Asked(vertex, inputs, readers)

    def _alive(self, site: str) -> bool:
        return site in self.setting.alive

    def _takes(self, site: str) -> bool:
        """Whether a vertex that is not bound to a site can go there."""
        open_sites = self.setting.open_sites
        return self._alive(site) and (open_sites is None or site in open_sites)

    def _share(self, asked: Asked, best: Candidate, found: Candidates) -> None:
        operator = best.operator
        known = self.setting.running.downstream(operator.id)
        lacking = [r for r in self.readers.get(asked.vertex.id, ()) if self.vertices[r].fingerprint not in known]
        decision = Decision(
            vertex=asked.vertex.id,
            action=Action.SHARED,
            site=best.site,
            operator=operator.id,
            reason=f"the same inputs and function as {operator.id}",
            edges=tuple(lacking),
            rejected=found.rejected,
            others=tuple(c for c in found.in_op if c is not best),
        )
        self.taken.add(operator.id)
        self.choices[asked.vertex.id] = _Choice(decision, operator.id)

    def _contain(self, asked: Asked, found: Candidates) -> bool:
        """Make the vertex of the output of an operator that contains it; False when there is none."""
        vertex = asked.vertex
        if not self.setting.sharing.rules.operators or vertex.kind not in (VertexKind.SOURCE, VertexKind.MERGE):
            return False
        for operator, residual in self._containing(vertex):
            site = self._site_beside(operator, asked)
            if site is None:
                continue
            receives = f", which {site} receives" if site != self._home(operator) else ""
            decision = Decision(
                vertex=vertex.id,
                action=Action.CONTAINED,
                site=site,
                operator=operator.id,
                reason=f"part of what {operator.id} sends{receives}: {left_to_do(vertex, operator.vertex)}",
                rejected=found.rejected,
            )
            own = TaskId.of(self.query, vertex.id, derived=True)
            self.choices[vertex.id] = _Choice(decision, own, (operator.id,), residual)
            return True
        return False

    def _site_beside(self, operator: Deployed, asked: Asked) -> str | None:
        """Where what is left of a vertex is done: beside a reader of the operator (IN), else beside the operator.

        None when its output has no way from there. That of a vertex that is bound to a site would leave it anyhow.
        """
        made = replace(asked.vertex, inputs=(), pinned=None)
        read = Asked(made, {operator.fingerprint: operator.vertex.output_bytes_per_s}, asked.readers)
        found = find_candidates(read, self.setting.running, self.room, self.setting.sharing.rules)
        usable = [c for c in found.in_ if self._takes(c.site)]
        if usable:
            return self._best(usable, asked.vertex).site
        bound = asked.vertex.pinned is not None or not self.setting.sharing.rules.checked
        home = self._home(operator)
        return home if bound or self.room.egress(home) > asked.vertex.output_bytes_per_s else None

    def _home(self, operator: Deployed) -> str:
        return self.setting.running.site(operator.id)

    def _containing(self, vertex: Vertex) -> list[tuple[Deployed, graph.Operator]]:
        """Operators that contain a vertex, with what is left to do; the one that sends least first.

        In modes without IN only those that do the same: other names or another order of columns are all that is left.
        """
        running, rules = self.setting.running, self.setting.sharing.rules
        offers: list[tuple[Deployed, graph.Operator]] = []
        for names in islice(running.comparable(vertex.reads), MAX_FORMS):
            self.compared += 1
            operator = next((o for o in map(running.task, names) if self._alive(self._home(o))), None)
            if operator is None or operator.fingerprint == vertex.fingerprint:
                continue
            if not rules.inputs and not _does_the_same(operator.vertex, vertex):
                continue
            # Both stages do the same at every site; the form has the names of columns as well.
            pair = (vertex.stage, operator.vertex.form, operator.vertex.types)
            if pair not in self.residuals:
                self.residuals[pair] = residual_of(vertex, operator.vertex)
            residual = self.residuals[pair]
            if residual is not None:
                offers.append((operator, residual))
        return sorted(offers, key=lambda offer: (offer[0].vertex.output_bytes_per_s, offer[0].id))

    def _deploy(self, asked: Asked, found: Candidates) -> None:
        vertex = asked.vertex
        action, site, beside, reason = self._site(asked, found)
        if not self._alive(site):
            raise PlacementError(
                f"site {site} is needed for {vertex.id}, but it can take no task now",
                found=site,
                hint="Start its agent, or undrain it.",
                ids={"site": site, "query": self.query},
            )
        others = tuple(c for c in found.in_ if c.operator.id != beside) if action is Action.CO_LOCATED else ()
        decision = Decision(vertex.id, action, site, beside, reason, rejected=found.rejected, others=others)
        reads: list[TaskId] = []
        for name in vertex.inputs:
            reads.append(self._supplier(name, site, reads))
        self.choices[vertex.id] = _Choice(decision, TaskId.of(self.query, vertex.id), tuple(reads))

    def _site(self, asked: Asked, found: Candidates) -> tuple[Action, str, TaskId | None, str]:
        vertex = asked.vertex
        if vertex.pinned is not None:
            return Action.PINNED, vertex.pinned, None, "where its data or its readers are"
        usable = [c for c in found.in_ if self._takes(c.site)]
        if usable:
            best = self._best(usable, vertex)
            reason = f"{best.operator.id} receives {_rate(best.shared_bytes_per_s)} of its inputs there"
            return Action.CO_LOCATED, best.site, best.operator.id, reason
        wanted = self.setting.placed.get(vertex.id)
        if wanted is not None and self.setting.sharing.rules.aware and not self._has_moved(vertex):
            return Action.PLACED, wanted, None, "fewest bytes over the WAN"
        flows = self._inputs(vertex)
        sites = sorted({site for site, _ in flows})
        if len(sites) == 1 and self._takes(sites[0]):
            return Action.LOCAL, sites[0], None, "all its inputs are there"
        return Action.PLACED, *self._placed(vertex, flows)

    def _has_moved(self, vertex: Vertex) -> bool:
        """Whether an input is made elsewhere than the caller thought when it placed the vertex."""
        made = [(self.vertices[name].pinned, self.choices[name].decision.site) for name in vertex.inputs]
        return any(home is not None and home != site for home, site in made)

    def _inputs(self, vertex: Vertex) -> list[tuple[str, float]]:
        """Sites and bytes per second of what it reads."""
        return [(self.choices[name].decision.site, self.vertices[name].output_bytes_per_s) for name in vertex.inputs]

    def _placed(self, vertex: Vertex, flows: Sequence[tuple[str, float]]) -> tuple[str, None, str]:
        able = [site for site in sorted(self.setting.wan.topology.sites) if self._takes(site)]
        if not able:
            raise PlacementError(f"no site can take {vertex.id}", ids={"query": self.query})
        if not self.setting.sharing.rules.aware:
            return self._placed_blindly(able, flows)
        # The cost alone would take a near link that is too narrow: latency counts squared.
        if self.setting.keeps_room:
            able = [site for site in able if self._has_room(flows, site)] or able
        costs = {site: sum(self.setting.wan.cost(source, site, rate) for source, rate in flows) for site in able}
        best = min(able, key=lambda site: (costs[site], site))
        return best, None, f"least cost of its links, {costs[best]:.3g} s^2"

    def _has_room(self, flows: Sequence[tuple[str, float]], site: str) -> bool:
        """Whether the links from its inputs carry a vertex's inputs to a site."""
        needed: dict[str, float] = {}
        for source, rate in flows:
            needed[source] = needed.get(source, 0.0) + rate
        spare = self.setting.wan.spare
        return all(source == site or spare(source, site) > rate for source, rate in needed.items())

    def _placed_blindly(self, able: Sequence[str], flows: Sequence[tuple[str, float]]) -> tuple[str, None, str]:
        near = [site for site, _ in sorted(flows) if self._takes(site)]
        if near:
            return near[0], None, "at the first of its inputs' sites that can take it"
        new = Counter(choice.decision.site for choice in self.choices.values() if choice.reads)
        best = min(able, key=lambda site: (self.setting.running.load(site) + new[site], site))
        return best, None, "none of its inputs' sites can take it: where the fewest operators run"

    def _best(self, candidates: Sequence[Candidate], vertex: Vertex) -> Candidate:
        if self.setting.goal is Goal.LATENCY:
            return min(candidates, key=lambda c: (self._way_s(c.site, vertex), c.operator.id))
        readers = {self.vertices[name].fingerprint for name in self.readers.get(vertex.id, ())}

        def shared(candidate: Candidate) -> tuple[float, int]:
            known = self.setting.running.downstream(candidate.operator.id)
            return candidate.shared_bytes_per_s, sum(reader in known for reader in readers)

        return min(candidates, key=lambda c: (*(-amount for amount in shared(c)), c.operator.id))

    def _way_s(self, site: str, vertex: Vertex) -> float:
        """From the farthest of the inputs over the site to where the results are wanted."""
        wan = self.setting.wan
        before = max((wan.latency_s(source, site) for source, _ in self._inputs(vertex)), default=0.0)
        return before + max((wan.latency_s(site, target) for target in self._ends()), default=0.0)

    def _ends(self) -> list[str]:
        ends = [v.pinned for v in self.vertices.values() if v.id not in self.readers and v.pinned is not None]
        return sorted(set(ends))

    def _supplier(self, name: VertexId, site: str, others: Sequence[TaskId]) -> TaskId:
        """The operator whose channel is read for an input: one that the site has already, where there is one."""
        running, own = self.setting.running, self.choices[name].supplier
        if not self.setting.sharing.rules.inputs:
            return own
        same = running.same(self.vertices[name].fingerprint)
        known = [own] * (own in same) + [other for other in same if self._is_free(other)]
        arriving = (other for other in known if other not in others and running.arrives(other, site))
        return next(arriving, own)

    def _is_free(self, name: TaskId) -> bool:
        return name not in self.taken and self._alive(self.setting.running.site(name))

    def plan(self) -> SharingPlan:
        """What is left when the vertices that nothing reads are gone."""
        needed = self._needed()
        decisions, deployed, used = [], [], set()
        for name, choice in self.choices.items():
            decision, vertex = choice.decision, self.vertices[name]
            if name not in needed and decision.action is Action.SHARED:
                decision = replace(decision, edges=())
            elif name not in needed:
                reason = "nothing reads it: all that would is shared, or has it from another"
                decision = replace(decision, action=Action.UNNEEDED, operator=None, reason=reason, edges=())
            elif choice.reads or decision.action is not Action.SHARED:
                residual = "" if choice.residual is None else spark_sql(choice.residual)
                deployed.append(Deployed(choice.supplier, vertex, choice.reads, residual))
                used |= {read for read in choice.reads if read.query != self.query}
            else:
                used.add(choice.supplier)
            decisions.append(decision)
        return SharingPlan(
            query=self.query,
            sharing=self.setting.sharing,
            decisions=tuple(decisions),
            deployed=tuple(deployed),
            used=tuple(sorted(used)),
            traffic=self._traffic(deployed),
            compared=self.compared,
        )

    def _needed(self) -> set[VertexId]:
        """Vertices whose output is read, from the results back."""
        own = {choice.supplier: name for name, choice in self.choices.items()}
        flow = networkx.DiGraph()
        flow.add_nodes_from(self.vertices)
        for name, choice in self.choices.items():
            flow.add_edges_from((own[read], name) for read in choice.reads if read in own)
        ends = {name for name in self.vertices if name not in self.readers}
        return ends.union(*(networkx.ancestors(flow, end) for end in ends))

    def _traffic(self, deployed: Sequence[Deployed]) -> dict[Pair, float]:
        """Each channel once for each site that does not receive it already."""
        running = self.setting.running
        new = {one.id: one for one in deployed}
        pulled: set[tuple[TaskId, str]] = set()
        traffic: dict[Pair, float] = {}
        for one in deployed:
            site = self.choices[one.vertex.id].decision.site
            for name in one.inputs:
                home = self.choices[name.vertex].decision.site if name in new else running.site(name)
                if home == site or (name, site) in pulled or (name not in new and running.arrives(name, site)):
                    continue
                pulled.add((name, site))
                sent = (new.get(name) or running.task(name)).vertex.output_bytes_per_s
                traffic[home, site] = traffic.get((home, site), 0.0) + sent
        return traffic


def _does_the_same(one: Vertex, other: Vertex) -> bool:
    return one.form is not None and other.form is not None and one.form.digest == other.form.digest


def _rate(bytes_per_s: float) -> str:
    return f"{bytes_per_s:.0f} bytes/s"
