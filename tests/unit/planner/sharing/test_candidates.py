"""Algorithm 1 and the index below it against a comparison with every operator that runs; what queries leave behind."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.graph.ids import TaskId
from planner.sharing.candidates import Asked, Room, find_candidates
from planner.sharing.modes import Sharing
from planner.sharing.plans import Action, Decision, Setting, SharingPlan
from planner.sharing.running import Deployed, MutableRunning, Running, as_measured
from planner.sharing.schedule import deploy, share
from planner.sharing.vertices import Vertex, VertexKind
from planner.sharing.wan import Wan
from planner.values.topology import Topology
from tests.unit.planner.build import topology_of
from tests.unit.planner.sharing.graphs import MB, World, vertex
from tests.unit.planner.sharing.names import tid, vid

SITES = ("a", "b", "c")
# Quarters add up exactly, in floats as well.
RATES = (0.25, 0.5, 1.0, 2.0)


@st.composite
def queries(draw: st.DrawFn) -> tuple[Vertex, ...]:
    """Up to three sources and up to four vertices over them; a fingerprint says all that is upstream."""
    names = draw(st.lists(st.sampled_from(["x", "y", "z", "u"]), min_size=1, max_size=3, unique=True))
    made = [
        vertex(n, RATES[i % 4], site=SITES[ord(n) % 3], kind=VertexKind.SOURCE) for i, n in enumerate(sorted(names))
    ]
    for number in range(draw(st.integers(1, 4))):
        inputs = draw(st.lists(st.sampled_from(made), min_size=1, max_size=3, unique_by=lambda v: v.id))
        function = draw(st.sampled_from("fg"))
        text = f"{function}({' '.join(sorted(v.fingerprint for v in inputs))})"
        rate = RATES[len(text) % 4]
        made.append(vertex(f"v{number}", rate, *(v.id for v in inputs), as_=text))
    return tuple(made)


topologies = st.lists(st.sampled_from([0.5, 1.0, 2.0, 4.0]), min_size=6, max_size=6).map(
    lambda rates: topology_of(
        *SITES,
        links={
            pair: (rate * MB, 10 * (1 + index))
            for index, (pair, rate) in enumerate(
                zip([(a, b) for a in SITES for b in SITES if a != b], rates, strict=True)
            )
        },
    )
)


def running_with(past: Iterable[tuple[Sequence[Vertex], Sharing]], topology: Topology) -> MutableRunning:
    running = MutableRunning()
    for number, (query, sharing) in enumerate(past):
        setting = Setting(running, Wan(topology), frozenset(SITES), sharing)
        deploy(share(f"q{number}", query, setting), running)
    return running


def all_of(running: Running) -> list[Deployed]:
    return sorted(running.deployed, key=lambda one: one.id)


def every_pair(asked: Asked, running: Running, wan: Wan) -> tuple[set[TaskId], set[TaskId]]:
    """What algorithm 1 keeps, word by word: the ids of IN-OP and of IN."""
    in_op, in_ = set[TaskId](), set[TaskId]()
    everything = all_of(running)
    made = {(one.fingerprint, running.site(one.id)) for one in everything}
    for w in everything:
        site = running.site(w.id)
        b_out = sum(wan.spare(site, other) for other in SITES if other != site)
        b_in = sum(wan.spare(other, site) for other in SITES if other != site)
        inputs = {running.task(name).fingerprint for name in w.inputs}
        if w.fingerprint == asked.vertex.fingerprint:
            readers = {other.fingerprint for other in everything if w.id in other.inputs}
            share_ = Fraction(len(asked.readers | readers), max(len(readers), 1))
            if b_out > share_ * Fraction(asked.vertex.output_bytes_per_s):
                in_op.add(w.id)
        elif asked.vertex.pinned is None and inputs & set(asked.inputs):
            lacking = [f for f in asked.inputs if f not in inputs and (f, site) not in made]
            if b_out > asked.vertex.output_bytes_per_s and b_in > sum(asked.inputs[f] for f in lacking):
                in_.add(w.id)
    return in_op, in_


def asked_of(query: Sequence[Vertex], wanted: Vertex) -> Asked:
    by_id = {v.id: v for v in query}
    inputs = {by_id[name].fingerprint: by_id[name].output_bytes_per_s for name in wanted.inputs}
    return Asked(wanted, inputs, frozenset(v.fingerprint for v in query if wanted.id in v.inputs))


def groups(names: Iterable[TaskId], running: Running) -> dict[tuple[str, frozenset[str]], TaskId]:
    """The first id of operators that read the same at the same site."""
    found: dict[tuple[str, frozenset[str]], TaskId] = {}
    for name in sorted(names, reverse=True):
        found[running.site(name), running.inputs_of(name)] = name
    return found


past = st.lists(st.tuples(queries(), st.sampled_from([Sharing.SANA, Sharing.NET, Sharing.STRICT])), max_size=5)


@settings(max_examples=50, deadline=None)
@given(past=past, query=queries(), topology=topologies)
def test_candidates_are_those_of_a_comparison_with_everything(
    past: list[tuple[tuple[Vertex, ...], Sharing]], query: tuple[Vertex, ...], topology: Topology
) -> None:
    running, wan = running_with(past, topology), Wan(topology)
    for wanted in query:
        asked = asked_of(query, wanted)
        found = find_candidates(asked, running, Room(wan), Sharing.SANA.rules)
        in_op, in_ = every_pair(asked, running, wan)
        assert {c.operator.id for c in found.in_op} == in_op
        assert {c.operator.id for c in found.in_} == set(groups(in_, running).values())


@settings(max_examples=50, deadline=None)
@given(past=past, query=queries(), topology=topologies, sharing=st.sampled_from(Sharing))
def test_a_plan_is_whole_and_places_at_the_least_cost(
    past: list[tuple[tuple[Vertex, ...], Sharing]], query: tuple[Vertex, ...], topology: Topology, sharing: Sharing
) -> None:
    running, wan = running_with(past, topology), Wan(topology)
    plan = share("new", query, Setting(running, wan, frozenset(SITES), sharing))
    check_whole(plan, query, running)
    sites = {d.vertex: d.site for d in plan.decisions}
    by_id = {v.id: v for v in query}
    for decision in plan.decisions:
        if decision.action is Action.PLACED and sharing.rules.aware:
            flows = [(sites[name], by_id[name].output_bytes_per_s) for name in by_id[decision.vertex].inputs]
            able = [to for to in SITES if has_room(wan, flows, to)] or SITES
            costs = {to: sum(cost(topology, at, to, rate) for at, rate in flows) for to in able}
            assert costs[decision.site] == min(costs.values())
    before = sum(running.traffic().values())
    deploy(plan, running)
    assert sum(running.traffic().values()) == before + plan.wan_bytes_per_s


def has_room(wan: Wan, flows: Sequence[tuple[str, float]], to: str) -> bool:
    sources = {at for at, _ in flows}
    return all(at == to or wan.spare(at, to) > sum(rate for other, rate in flows if other == at) for at in sources)


def cost(topology: Topology, source: str, target: str, rate: float) -> float:
    link = topology.link(source, target)
    return 0.0 if link is None else rate * link.latency.total_seconds() ** 2 / link.bandwidth_bytes_per_s


def check_whole(plan: SharingPlan, query: Sequence[Vertex], running: Running) -> None:
    """Every vertex has one decision, and what is deployed reads what its vertex reads."""
    assert [d.vertex for d in plan.decisions] == [v.id for v in query]
    by_id = {v.id: v for v in query}
    known = {operator.id: operator for operator in (*all_of(running), *plan.deployed)}
    for operator in plan.deployed:
        wanted = sorted(by_id[name].fingerprint for name in operator.vertex.inputs)
        assert sorted(known[name].fingerprint for name in operator.inputs) == wanted
    ends = {v.id for v in query} - {name for v in query for name in v.inputs}
    assert not [d.vertex for d in plan.decisions if d.vertex in ends and d.action is Action.UNNEEDED]
    assert len({d.operator for d in plan.decisions if d.action is Action.SHARED}) == sum(
        d.action is Action.SHARED for d in plan.decisions
    )


@settings(max_examples=30, deadline=None)
@given(past=past, order=st.randoms(use_true_random=False), topology=topologies)
def test_what_is_left_is_what_the_other_queries_need(
    past: list[tuple[tuple[Vertex, ...], Sharing]], order: random.Random, topology: Topology
) -> None:
    running = running_with(past, topology)
    names = sorted(running.queries)
    order.shuffle(names)
    while names:
        running = running.measured({o.id: order.choice(RATES) for o in running.deployed if order.random() < 0.5})
        assert running.traffic() == recomputed(all_of(running), running)
        running.remove(names.pop())
        left = all_of(running)
        for operator in left:
            assert running.users(operator.id)
            assert running.users(operator.id) <= set(names)
            assert all(running.users(operator.id) <= running.users(name) for name in operator.inputs)
        assert running.traffic() == recomputed(left, running)
    assert len(running) == 0
    assert MutableRunning() == running


@settings(max_examples=50, deadline=None)
@given(past=past, query=queries(), order=st.randoms(use_true_random=False), topology=topologies)
def test_what_was_measured_counts_as_if_vertices_were_expected_to_send_it(
    past: list[tuple[tuple[Vertex, ...], Sharing]], query: tuple[Vertex, ...], order: random.Random, topology: Topology
) -> None:
    running = running_with(past, topology)
    ids = [one.id for one in all_of(running)]
    first = {name: order.choice(RATES) for name in ids if order.random() < 0.5}
    second = {name: order.choice(RATES) for name in (*ids, tid("gone/z")) if order.random() < 0.3}
    measured = running.measured(first).measured(second)
    expected = rebuilt(running, {**first, **second})
    assert {name: measured.output_bytes_per_s(name) for name in ids} == {
        name: expected.task(name).vertex.output_bytes_per_s for name in ids
    }
    assert measured.traffic() == expected.traffic()
    rates = {**first, **second}
    for one in all_of(running):
        same = [rates[name] for name in running.same(one.fingerprint) if name in rates]
        assert measured.measured_bytes_per_s(one.fingerprint) == max(same, default=None)
    new = as_measured(query, measured)
    plan, wanted = (share("new", new, Setting(one, Wan(topology), frozenset(SITES))) for one in (measured, expected))
    assert list(map(decided, plan.decisions)) == list(map(decided, wanted.decisions))
    assert (plan.deployed, plan.used, plan.traffic) == (wanted.deployed, wanted.used, wanted.traffic)


def decided(decision: Decision) -> object:
    """All of a decision, with the ids of operators in their place."""
    found = [(c.operator.id, c.site, c.share, c.shared_bytes_per_s, c.obstacle) for c in decision.rejected]
    others = [(c.operator.id, c.site, c.share, c.shared_bytes_per_s) for c in decision.others]
    return replace(decision, rejected=(), others=()), found, others


def rebuilt(running: Running, rates: Mapping[TaskId, float]) -> Running:
    """The same queries, deployed with vertices that are expected to send these rates."""
    made = MutableRunning()
    for query in sorted(running.queries):
        needed = [running.task(name) for name in running.needed_by(query)]
        own = [
            replace(
                one, vertex=replace(one.vertex, output_bytes_per_s=rates.get(one.id, one.vertex.output_bytes_per_s))
            )
            for one in needed
            if one.id not in made.placement
        ]
        made.add(query, own, running.placement, [one.id for one in needed])
    return made


def recomputed(deployed: Sequence[Deployed], running: Running) -> dict[tuple[str, str], float]:
    pulled = {(name, running.site(one.id)) for one in deployed for name in one.inputs}
    traffic: dict[tuple[str, str], float] = {}
    for name, site in sorted(pulled):
        pair = (running.site(name), site)
        if pair[0] != site:
            traffic[pair] = traffic.get(pair, 0.0) + running.output_bytes_per_s(name)
    return traffic


def test_queries_that_have_nothing_in_common_are_not_looked_at() -> None:
    world = World(topology_of(*SITES), {})
    for number in range(20):
        world.submit(f"q{number}", vertex(f"x{number}", 1, site="a"), vertex(f"m{number}", 1, f"x{number}", site="b"))
    assert world.plan("new", vertex("y", 1, site="a"), vertex("n", 1, "y")).compared == 0
    assert world.plan("new", vertex("x3", 1, site="a"), vertex("n", 1, "x3")).compared == 2


def test_below_an_unknown_vertex_nothing_is_compared() -> None:
    world = World(topology_of(*SITES), {})
    world.submit("q", vertex("x", 1, site="a"), vertex("m", 1, "x", as_="f(x)"), vertex("n", 1, "m", as_="g(f(x))"))
    query = [vertex("y", 1, site="a"), vertex("m", 1, "y", as_="f(y)"), vertex("n", 1, "m", as_="g(f(y))")]
    room = Room(Wan(world.topology))
    found = [find_candidates(asked_of(query, wanted), world.running, room, Sharing.SANA.rules) for wanted in query]
    assert [c.compared for c in found] == [0, 0, 0]


def test_operators_that_read_the_same_at_one_site_are_compared_once() -> None:
    world = World(topology_of(*SITES), {})
    for number in range(20):
        world.submit(f"q{number:02}", vertex("x", 1, site="a"), vertex(f"m{number}", 1, "x", site="b"))
    plan = world.plan("new", vertex("x", 1, site="a"), vertex("n", 1, "x"))
    assert plan.compared == 2
    assert plan.decision(vid("n")).operator == tid("q00/m0")


def test_vertices_are_taken_at_what_operators_that_do_the_same_were_measured_to_send() -> None:
    world = World(topology_of(*SITES), {})
    query = (vertex("x", 1, site="a"), vertex("y", 1, site="b"), vertex("m", 1, "x", "y", site="b"))
    world.submit("q", *query)
    world.running = world.running.measured({tid("q/x"): 3 * MB, tid("gone/z"): MB})
    found = as_measured(query, world.running)
    assert [v.output_bytes_per_s / MB for v in found] == [3, 1, 1]
    assert world.wan_mb_per_s == 3
    world.running.remove("q")
    assert as_measured(query, world.running) == query
