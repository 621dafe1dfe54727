"""Stored text of frozen values."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from master.records.model import Progress
from master.store import codec
from planner.graph.operators import Scan
from planner.graph.plan import LinkTraffic, Merge, MergeView, PhysicalPlan, PlacementCandidate, RangeResult
from planner.relations.catalog import Relation
from planner.values.links import LinkFigures
from tests.unit.master.build import CLICKS, PLAN, START, query


@dataclass(frozen=True, slots=True)
class Grown:
    """A value that got a field since it was stored."""

    kept: int
    added: str = "default"


def test_a_plan_comes_back_equal() -> None:
    plan = replace(
        PLAN,
        links=(LinkTraffic("us", "eu", 1.5, 20.0), LinkTraffic("eu", "hub", 1, 2)),
        candidates=(PlacementCandidate("eu", 1.0, float("inf"), chosen=True, reason='naïve "quotes"'),),
        logical=("Sink", "  Merge"),
        figures=(
            LinkFigures("us", "eu", 2.0, 1.5, timedelta(milliseconds=40), timedelta(seconds=4.25), 0.9),
            LinkFigures("eu", "hub", 3.0, 3.0, timedelta(0)),
        ),
    )
    assert codec.loads(PhysicalPlan, codec.dumps(plan)) == plan


def test_a_plan_stored_before_figures_of_links_were_kept_is_what_it_was() -> None:
    stored = json.loads(codec.dumps(PLAN))
    del stored["figures"]
    assert codec.loads(PhysicalPlan, json.dumps(stored)) == PLAN


def test_a_merge_with_views_comes_back_equal() -> None:
    merge = Merge(
        "w", timedelta(seconds=10), "", timedelta(seconds=5), (MergeView("input"), MergeView("t1", "C", False))
    )
    assert codec.loads(Merge, codec.dumps(merge)) == merge
    ranged = replace(merge, ranges=(RangeResult("input", "R", Scan("input")),), over_ranges=Scan("input"))
    assert codec.loads(Merge, codec.dumps(ranged)) == ranged
    stored = json.loads(codec.dumps(merge))
    del stored["views"]
    assert codec.loads(Merge, json.dumps(stored)) == replace(merge, views=())


def test_a_relation_comes_back_equal() -> None:
    relation = replace(CLICKS, created_at=START, watermark_delay=timedelta(days=400, microseconds=1))
    assert codec.loads(Relation, codec.dumps(relation)) == relation


def test_progress_comes_back_equal() -> None:
    assert codec.loads(Progress, codec.dumps(query().progress)) == query().progress


def test_equal_values_give_equal_text_whatever_their_order() -> None:
    binding = CLICKS.bindings[0]
    turned = replace(binding, options=dict(reversed(list(binding.options.items()))))
    assert codec.dumps(turned) == codec.dumps(binding)


def test_fields_may_come_and_go() -> None:
    assert codec.loads(Grown, json.dumps({"kept": 1})) == Grown(1)
    assert codec.loads(Grown, json.dumps({"kept": 1, "gone": 2})) == Grown(1)


def test_a_field_without_default_must_be_there() -> None:
    with pytest.raises(TypeError):
        codec.loads(Grown, "{}")
