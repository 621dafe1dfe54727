"""The scenes of the benchmark have a placement."""

from __future__ import annotations

import pytest

from benchmarks.placing import a_query, chain, one_operator, tree

SITES = tuple("abcdef")


@pytest.mark.parametrize("number", [1, 2, 7])
def test_a_tree_has_one_operator_that_feeds_no_other(number: int) -> None:
    operators = tree(number, SITES)
    names = [one.name for one in operators]
    fed = [name for one in operators for name in one.feeds]
    assert [one.name for one in operators if not one.feeds] == names[-1:]
    assert all(names.index(name) > names.index(one.name) for one in operators for name in one.feeds)
    assert all(bool(one.demand.inputs) == (one.name not in fed) for one in operators)
    assert all(fed.count(name) <= 2 for name in names)


def test_a_chain_passes_on_nine_tenths() -> None:
    first, second, last = chain(3, SITES)
    (passed,) = first.feeds.values()
    assert (sum(first.demand.inputs.values()) * 0.9, sum(second.feeds.values())) == pytest.approx(
        (passed, passed * 0.9)
    )
    assert not last.feeds


def test_small_scenes_are_placed() -> None:
    rows, longest_s = one_operator(12)
    assert len(rows) == 2
    assert longest_s > 0
    queries, longest_s = a_query(2)
    assert len(queries) == 2
    assert longest_s > 0
