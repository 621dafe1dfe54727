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

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from planner.graph.ids import TaskId, VertexId
from planner.graph.operators import Operator
from planner.sharing.candidates import Asked, Candidate, Candidates, Room, find_candidates
from planner.sharing.containment import left_to_do, residual_of
from planner.sharing.draft import Choice, Draft, plan_of
from planner.sharing.forms import Form
from planner.sharing.placing import Placing
from planner.sharing.plans import Action, Decision, Setting, SharingPlan
from planner.sharing.running import Deployed, MutableRunning
from planner.sharing.vertices import Vertex, VertexKind
from planner.values.errors import PlacementError

_CONTAINED = (VertexKind.SOURCE, VertexKind.MERGE)
MAX_FORMS = 64
"""So many forms over the same input are looked at for one that contains a vertex; those beyond are passed over."""


def share(query: str, vertices: Sequence[Vertex], setting: Setting) -> SharingPlan:
    """The plan of a new query; nothing that runs is changed.

    Args:
        query: its id.
        vertices: each behind those it reads.
        setting: what runs, and the state of the links.

    Raises:
        PlacementError: no site that is alive can take a vertex.
    """
    draft = Draft(query, {vertex.id: vertex for vertex in vertices})
    scheduler = _Scheduler(draft, setting, Placing(draft, setting), _Containing(draft, setting), Room(setting.wan))
    for vertex in vertices:
        scheduler.decide(vertex)
    return plan_of(draft, setting)


def deploy(plan: SharingPlan, running: MutableRunning) -> None:
    """Take a plan into what runs.

    Raises:
        ValueError: the query runs already, or an operator that it uses has ended.
    """
    running.add(plan.query, plan.deployed, plan.placement, plan.used)


@dataclass(slots=True)
class _Containing:
    """Finds running operators whose output contains that of a vertex."""

    draft: Draft
    setting: Setting
    residuals: dict[tuple[str, Form | None, tuple[str, ...]], Operator | None] = field(default_factory=dict)
    """What is left to do, by stage of the query, form and types of an operator; None where it does not contain it."""

    def offers(self, vertex: Vertex) -> list[tuple[Deployed, Operator]]:
        """Operators that contain a vertex, with what is left to do; the one that sends least first.

        In modes without IN only those that do the same: other names or another order of columns are all that is left.
        """
        running, rules = self.setting.running, self.setting.sharing.rules
        offers: list[tuple[Deployed, Operator]] = []
        for names in islice(running.comparable(vertex.reads), MAX_FORMS):
            self.draft.compared += 1
            operator = next((o for o in map(running.task, names) if running.site(o.id) in self.setting.alive), None)
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
        return sorted(offers, key=lambda offer: (running.output_bytes_per_s(offer[0].id), offer[0].id))


@dataclass(frozen=True, slots=True)
class _Scheduler:
    """Algorithm 2 of Sana: decides one vertex after the other, and writes the choices into the draft."""

    draft: Draft
    setting: Setting
    placing: Placing
    containing: _Containing
    room: Room

    def decide(self, vertex: Vertex) -> None:
        """Decide a vertex; those that it reads are decided."""
        asked = self.draft.asked(vertex)
        found = find_candidates(asked, self.setting.running, self.room, self.setting.sharing.rules)
        self.draft.compared += found.compared
        usable = [candidate for candidate in found.in_op if self._is_free(candidate.operator.id)]
        if usable:
            self._share(asked, self.placing.best(usable, vertex), found)
        elif not self._contain(asked, found):
            self._deploy(asked, found)

    def _share(self, asked: Asked, best: Candidate, found: Candidates) -> None:
        operator = best.operator
        known = self.setting.running.downstream(operator.id)
        lacking = [
            r for r in self.draft.readers.get(asked.vertex.id, ()) if self.draft.vertices[r].fingerprint not in known
        ]
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
        self.draft.taken.add(operator.id)
        self.draft.choices[asked.vertex.id] = Choice(decision, operator.id)

    def _contain(self, asked: Asked, found: Candidates) -> bool:
        """Computes the vertex from the output of an operator that contains it; False: there is none."""
        vertex = asked.vertex
        if not self.setting.sharing.rules.operators or vertex.kind not in _CONTAINED:
            return False
        if any(
            self.draft.vertices[reader].kind is VertexKind.COMBINE for reader in self.draft.readers.get(vertex.id, ())
        ):
            # It would be derived where the operator's rows are received, and go back to be combined.
            return False
        for operator, residual in self.containing.offers(vertex):
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
            own = TaskId.of(self.draft.query, vertex.id, derived=True)
            self.draft.choices[vertex.id] = Choice(decision, own, (operator.id,), residual)
            return True
        return False

    def _site_beside(self, operator: Deployed, asked: Asked) -> str | None:
        """Where what is left of a vertex is done: beside a reader of the operator (IN), else beside the operator.

        None when its output has no way from there. That of a vertex that is bound to a site would leave it anyhow.
        """
        made = replace(asked.vertex, inputs=(), pinned=None)
        read = Asked(made, {operator.fingerprint: self.setting.running.output_bytes_per_s(operator.id)}, asked.readers)
        found = find_candidates(read, self.setting.running, self.room, self.setting.sharing.rules)
        usable = [c for c in found.in_ if self.placing.takes(c.site)]
        if usable:
            return self.placing.best(usable, asked.vertex).site
        bound = asked.vertex.pinned is not None or not self.setting.sharing.rules.checked
        home = self._home(operator)
        return home if bound or self.room.egress(home) > asked.vertex.output_bytes_per_s else None

    def _home(self, operator: Deployed) -> str:
        return self.setting.running.site(operator.id)

    def _deploy(self, asked: Asked, found: Candidates) -> None:
        vertex = asked.vertex
        action, site, beside, reason = self.placing.site(asked, found)
        if site not in self.setting.alive:
            raise PlacementError(
                f"site {site} is needed for {vertex.id}, but it can take no task now",
                found=site,
                hint="Start its agent, or undrain it.",
                ids={"site": site, "query": self.draft.query},
            )
        others = tuple(c for c in found.in_ if c.operator.id != beside) if action is Action.CO_LOCATED else ()
        decision = Decision(vertex.id, action, site, beside, reason, rejected=found.rejected, others=others)
        reads: list[TaskId] = []
        for name in vertex.inputs:
            reads.append(self._supplier(name, site, reads))
        self.draft.choices[vertex.id] = Choice(decision, TaskId.of(self.draft.query, vertex.id), tuple(reads))

    def _supplier(self, name: VertexId, site: str, others: Sequence[TaskId]) -> TaskId:
        """The operator whose channel is read for an input: one that the site has already, where there is one."""
        running, own = self.setting.running, self.draft.choices[name].supplier
        if not self.setting.sharing.rules.inputs:
            return own
        same = running.same(self.draft.vertices[name].fingerprint)
        known = [own] * (own in same) + [other for other in same if self._is_free(other)]
        arriving = (other for other in known if other not in others and running.arrives(other, site))
        return next(arriving, own)

    def _is_free(self, name: TaskId) -> bool:
        return name not in self.draft.taken and self.setting.running.site(name) in self.setting.alive


def _does_the_same(one: Vertex, other: Vertex) -> bool:
    return one.form is not None and other.form is not None and one.form.digest == other.form.digest
