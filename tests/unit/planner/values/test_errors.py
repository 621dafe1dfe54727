from __future__ import annotations

import pickle

import pytest

from planner.values import errors
from planner.values.errors import PlannerError, Position

LEAVES = sorted(PlannerError.__subclasses__(), key=lambda leaf: leaf.__name__)


@pytest.mark.parametrize("leaf", LEAVES)
def test_errors_survive_pickling(leaf: type[PlannerError]) -> None:
    error = leaf("wrong", position=Position(1, 2), found="x", hint="y", ids={"site": "a"})
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is leaf
    assert (again.message, again.position, again.found, again.hint, again.ids) == (
        "wrong",
        Position(1, 2),
        "x",
        "y",
        {"site": "a"},
    )


def test_codes_are_unique() -> None:
    codes = [leaf.code for leaf in LEAVES]
    assert len(set(codes)) == len(codes)
    assert errors.PlannerError.code not in codes
