"""A decision says which task goes where."""

from __future__ import annotations

import pytest

from planner.adapt.model import Seen
from planner.adapt.moves import task_moves, with_sites
from planner.adapt.options import Action, Change, Option
from planner.graph.ids import VertexId
from planner.graph.plan import Destination, PhysicalPlan
from planner.values.trees import Tree
from tests.unit.planner.adapt.scenes import START, Scene, mesh

SCENE = Scene(merges=("hub", "a"))
SITES = ("a", "b", "hub", "far")


def option(action: Action, tree: Tree | None = None) -> Option:
    return Option(action, (Change(("q", "m1"), {"hub": 1, "a": 1}, {"a": 1, "far": 1}),), 1.0, 0.5, tree=tree)


@pytest.mark.parametrize("action", [Action.REASSIGN, Action.REPLAN])
def test_as_few_tasks_move_as_can(action: Action) -> None:
    moves = task_moves(SCENE.graph, option(action), Seen(START), mesh(SITES))
    assert moves == {SCENE.merge(0): "far"}


def test_nothing_moves_where_something_else_is_to_be_done() -> None:
    for chosen in (option(Action.SCALE_OUT), option(Action.REPLAN, Tree({"a": "b"}))):
        assert task_moves(SCENE.graph, chosen, Seen(START), mesh(SITES)) == {}


def test_a_plan_has_operators_of_one_task_where_the_option_wants_them() -> None:
    plan = PhysicalPlan((), "f1", Destination("hub"), (), {VertexId("m1"): "hub", VertexId("f1"): "hub"})
    changes = (Change(("q", "m1"), {"hub": 1}, {"far": 1}), Change(("q", "m1+"), {}, {"b": 1}))
    found = with_sites(plan, Option(Action.REPLAN, changes, 1.0, 0.5, tree=Tree({"a": "b"})))
    assert found.sites == {VertexId("m1"): "far", VertexId("f1"): "hub"}
