"""A query whose way leads through an operator that it shares: kept for all, or split off."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta

import pytest

from planner.adapt.decide import decide
from planner.adapt.memory import Memory
from planner.adapt.model import ChannelSeen, Counters, Graph, Links, Node, Phase, Role, TaskSeen
from planner.adapt.options import Action
from planner.adapt.situation import Decision, Situation, Verdict
from planner.graph.ids import TaskId
from tests.unit.planner.adapt.scenes import SETTINGS, SPAN_S, Scene, mesh

SITES = ("a", "b", "hub", "asia", "far")
OWNER = Scene(query="q1", each_s=1e-5, most=1, late_s=10.0, state_bytes=1000)
READER = TaskId("q2", "results")
OUT_PER_S = 200.0
"""Rows of the merge, 100 bytes each."""


def shared(links: Links, slots: Mapping[str, int], *, carried: float = OUT_PER_S / 2) -> Situation:
    """Another query, whose results are at asia, reads the merge at the hub, over a link that carries so many rows."""
    before, after = OWNER.seen()
    merge, graph = OWNER.merge(), OWNER.graph
    for number, seen in enumerate((before, after)):
        at_s = OWNER.age_s + number * SPAN_S
        out = OUT_PER_S * at_s
        stored = int(out - (OUT_PER_S - carried) * SPAN_S * (number + 1))
        counters = Counters(at_s, stored, 0, 0, 0.0, 0.0, 0.0, 0.0)
        tasks = {**seen.tasks, READER: TaskSeen(seen.at, Phase.RUNNING, "i1", counters)}
        channels = {**seen.channels, (merge, READER): ChannelSeen(int(out), stored, stored)}
        if number:
            after = replace(seen, tasks=tasks, channels=channels)
        else:
            before = replace(seen, tasks=tasks, channels=channels)
    # The master tells each query only the sites and inputs of another query's tasks.
    others = (replace(node, late_s=None, partials=False) for node in graph.nodes if node.role is not Role.SINK)
    nodes = (*others, Node(READER, Role.SINK, "asia", (merge,)))
    return Situation((graph, Graph("q2", nodes)), before, after, links, slots)


def of_second(situation: Situation, memory: Memory | None = None) -> Decision:
    found = decide(situation, memory or Memory(), SETTINGS)
    (one,) = (decision for decision in found.decisions if decision.query == "q2")
    return one


def test_all_queries_go_on_elsewhere_with_a_task_that_they_share() -> None:
    found = of_second(shared(mesh(SITES), {"asia": 2, "far": 2}))
    assert found.chosen is not None
    assert (found.chosen.action, found.chosen.changes[0].group) == (Action.REASSIGN, ("q1", "m1"))
    (split,) = (one for one in found.considered if one.option.action is Action.SPLIT)
    assert "and to keep it shared" in split.against


def test_a_query_is_split_off_where_the_other_has_been_moved_too_often() -> None:
    situation = shared(mesh(SITES), {"asia": 2, "far": 2})
    often = Memory(adapted={"q1": (situation.now - timedelta(seconds=20), situation.now - timedelta(seconds=18))})
    found = of_second(situation, often)
    assert found.chosen is not None
    (change,) = found.chosen.changes
    assert (found.chosen.action, found.chosen.shared) == (Action.SPLIT, ("q1", "m1"))
    assert (change.group, change.before) == (("q2", "m1"), {})
    assert found.chosen.adapt_s == SETTINGS.prepare_s + 10.0
    (kept,) = (one for one in found.considered if one.option.action is Action.REASSIGN)
    assert "to split the query off" in kept.against
    assert found.cost is not None
    # Only the overhead of the query that is split off counts.
    assert found.cost.overhead == pytest.approx(found.chosen.adapt_s / SETTINGS.horizon_s)


def test_the_overhead_of_all_queries_counts_for_a_task_that_moves_with_them() -> None:
    found = of_second(shared(mesh(SITES), {"asia": 2, "far": 2}))
    assert found.cost is not None
    assert found.chosen is not None
    assert found.cost.overhead == pytest.approx(2 * found.chosen.adapt_s / SETTINGS.horizon_s)


def test_a_query_is_split_off_where_no_place_suits_all() -> None:
    """Nothing but the hub reaches the other query's home."""
    links = mesh(SITES, hub_asia=10_000.0, **{f"{x}_hub": 0.0 for x in ("asia", "far")})
    found = of_second(shared(links, {"asia": 1, "far": 0}))
    assert found.chosen is not None
    assert (found.chosen.action, found.chosen.changes[0].after) == (Action.SPLIT, {"asia": 1})
    assert found.reason == "the query alone can go another way"


def test_nothing_is_done_about_the_task_of_a_query_without_adaptation() -> None:
    situation = shared(mesh(SITES), {"asia": 2, "far": 2})
    found = of_second(replace(situation, graphs=situation.graphs[1:]))
    assert (found.verdict, found.reason) == (Verdict.NONE, "it shares m1 of q1, which has no adaptation")


def test_a_merge_whose_state_has_to_be_sent_is_not_split() -> None:
    situation = shared(mesh(SITES), {"asia": 2, "far": 2})
    without = tuple(
        replace(graph, nodes=tuple(replace(node, late_s=None) for node in graph.nodes)) for graph in situation.graphs
    )
    found = of_second(replace(situation, graphs=without))
    assert [one.option.action for one in found.considered if one.option.action is Action.SPLIT] == []
