from __future__ import annotations

from datetime import timedelta

import pytest

from planner.graph.logical import (
    Aggregate,
    Filter,
    Generate,
    Having,
    Insert,
    Join,
    JoinOfWindows,
    Limit,
    LogicalOperator,
    MergeAggregate,
    PartialAggregate,
    Project,
    Scan,
    Sort,
    TopK,
    UnionAll,
    Windows,
)
from planner.graph.operators import Named
from planner.sql.dialect import exp, name_node
from planner.text.logical import logical_lines

CLICKS = Scan("clicks", ("eu", "us"), ("ap",))
PAGES = Scan("pages", ())
TUMBLING = Windows(timedelta(seconds=10), timedelta(seconds=10))
SLIDING = Windows(timedelta(seconds=10), timedelta(seconds=5))


def column(name: str, table: str = "") -> exp.Expr:
    return exp.Column(this=name_node(name), table=name_node(table) if table else None)


def equal(left: exp.Expr, right: exp.Expr) -> exp.Expr:
    return exp.EQ(this=left, expression=right)


A, B = column("a"), column("b")
SAME = equal(column("k", "c"), column("k", "p"))
DESCENDING = exp.Ordered(this=A, desc=True)


@pytest.mark.parametrize(
    ("operator", "line"),
    [
        (CLICKS, "Scan[clicks at eu, us; not ap]"),
        (PAGES, "Scan[pages at no site]"),
        (Join(CLICKS, PAGES, "pages", False, (SAME,)), "Join[INNER pages ON c.k = p.k]"),
        (Join(CLICKS, PAGES, "pages", True, (SAME,), True), "Join[LEFT pages at the same site ON c.k = p.k]"),
        (
            Join(CLICKS, PAGES, "p", False, (SAME, equal(A, B)), windows=SLIDING),
            "WindowJoin[INNER p in each window of 10 seconds every 5 seconds ON c.k = p.k AND a = b]",
        ),
        (JoinOfWindows(CLICKS, PAGES, "p", True, (SAME,)), "JoinOfWindows[LEFT p ON c.k = p.k]"),
        (Generate(CLICKS, exp.Anonymous(this="explode", expressions=[A])), "LateralView[explode(a)]"),
        (Filter(CLICKS, (equal(A, B),)), "Filter[a = b]"),
        (Having(CLICKS, (equal(A, B),)), "Having[a = b]"),
        (Aggregate(CLICKS, ()), "Aggregate[all rows]"),
        (Aggregate(CLICKS, (A,), windowed=True), "Aggregate[window, a]"),
        (PartialAggregate(CLICKS, (A,), TUMBLING), "PartialAggregate[window of 10 seconds, a]"),
        (MergeAggregate(CLICKS, (A, B)), "MergeAggregate[window, a, b]"),
        (TopK(CLICKS, "rank", (), (DESCENDING,), 3), "TopK[3 by rank over a DESC]"),
        (TopK(CLICKS, "rank", (B,), (DESCENDING,), 3, True), "TopK[3 per window, b by rank over a DESC]"),
        (Project(CLICKS, (Named("a", A), Named("x", B))), "Project[a, b AS x]"),
        (Sort(CLICKS, (DESCENDING,)), "Sort[a DESC]"),
        (Limit(CLICKS, 5, 2), "Limit[5, offset 2]"),
        (Limit(CLICKS, None, 2), "Limit[all, offset 2]"),
        (UnionAll((CLICKS, PAGES)), "UnionAll"),
        (Insert(CLICKS, "daily"), "Insert[daily]"),
    ],
)
def test_an_operator_is_one_line(operator: LogicalOperator, line: str) -> None:
    assert logical_lines(operator)[0] == line


def test_inputs_are_further_in_and_notes_come_last() -> None:
    tree = Insert(UnionAll((Filter(CLICKS, (A,)), PAGES)), "daily")
    assert logical_lines(tree, ["d: merged"]) == (
        "Insert[daily]",
        "  UnionAll",
        "    Filter[a]",
        "      Scan[clicks at eu, us; not ap]",
        "    Scan[pages at no site]",
        "(d: merged)",
    )


def test_long_expressions_are_cut() -> None:
    (line, _) = logical_lines(Filter(CLICKS, (column("x" * 300),)))
    assert line == f"Filter[{'x' * 200}...]"


def test_python_functions_are_shown_without_their_version() -> None:
    call = exp.Anonymous(this="cell__0123456789ab", expressions=[A])
    (line, _) = logical_lines(Filter(CLICKS, (call,)))
    assert line == "Filter[cell(a)]"
