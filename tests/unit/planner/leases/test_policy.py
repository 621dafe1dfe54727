from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

import hypothesis.strategies as st
import pytest
from hypothesis import given

from planner.leases import LeasePolicy, fair_cap


def shares_by_turns(demands: Mapping[str, int], slots: int) -> dict[str, int]:
    """Max-min fair shares by brute force: one slot at a time to whoever has least and wants more, first by name."""
    shares = dict.fromkeys(demands, 0)
    for _ in range(slots):
        hungry = [name for name in sorted(demands) if shares[name] < demands[name]]
        if not hungry:
            break
        shares[min(hungry, key=lambda name: (shares[name], name))] += 1
    return shares


@given(demands=st.dictionaries(st.sampled_from("abcde"), st.integers(0, 12)), slots=st.integers(0, 30))
def test_fair_cap_is_what_filling_by_turns_gives(demands: dict[str, int], slots: int) -> None:
    expected = shares_by_turns({**demands, "c": slots}, slots)["c"]
    assert fair_cap("c", demands, slots) == expected


def test_worked_examples() -> None:
    # 10 slots; one wants 2, one wants 9: the third gets half of the 8 that are left.
    assert fair_cap("c", {"a": 2, "b": 9}, 10) == 4
    assert fair_cap("c", {}, 10) == 10
    # The slot that cannot be divided goes to the first by name.
    assert [fair_cap(name, {"a": 9, "b": 9, "c": 9}, 10) for name in "abc"] == [4, 3, 3]


@pytest.mark.parametrize(
    ("policy", "problems"),
    [
        (LeasePolicy(), 0),
        (LeasePolicy(longest=timedelta(0)), 1),
        (LeasePolicy(grace=timedelta(seconds=-1), offer=timedelta(0)), 2),
    ],
)
def test_a_policy_names_what_is_wrong_with_it(policy: LeasePolicy, problems: int) -> None:
    assert len(policy.validate()) == problems
