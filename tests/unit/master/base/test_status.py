"""Every error class has a status, and the documentation lists it."""

from __future__ import annotations

import pickle
import re
from pathlib import Path

import grpc
import pytest

import selat.errors
import site_agent.base.errors
from master.base import errors
from master.base.errors import MasterError
from master.base.status import STATUS_CODES, detail_of, status_of
from planner.values import errors as planner_errors
from planner.values.errors import PlannerError, Position

ERRORS_PAGE = Path(__file__).parents[4] / "docs" / "errors.md"


def classes(module: object, root: type[Exception]) -> list[type[Exception]]:
    return [c for c in vars(module).values() if isinstance(c, type) and issubclass(c, root)]


ALL = classes(errors, MasterError) + classes(planner_errors, PlannerError)


@pytest.mark.parametrize("kind", ALL, ids=lambda c: c.__name__)
def test_every_class_is_in_the_table(kind: type[Exception]) -> None:
    assert kind in STATUS_CODES


def test_the_documentation_lists_every_code_of_agent_and_client() -> None:
    own = {c.code for c in classes(site_agent.base.errors, site_agent.base.errors.SiteAgentError)}  # type: ignore[attr-defined]
    client = {c.default_code for c in classes(selat.errors, selat.errors.SelatError)}  # type: ignore[attr-defined]
    listed = set(re.findall(r"^\| `([A-Z_]+)` \|", ERRORS_PAGE.read_text(), re.MULTILINE))
    assert own | client <= listed


def test_codes_are_unique() -> None:
    codes = [kind.code for kind in ALL]  # type: ignore[attr-defined]
    assert len(codes) == len(set(codes))


@pytest.mark.parametrize("kind", ALL, ids=lambda c: c.__name__)
def test_the_documentation_has_its_code_with_its_status(kind: type[Exception]) -> None:
    rows = dict(re.findall(r"^\| `([A-Z_]+)` \| `?([A-Z_]+)`? \|", ERRORS_PAGE.read_text(), re.MULTILINE))
    assert rows.get(kind.code) == STATUS_CODES[kind].name  # type: ignore[attr-defined]


@pytest.mark.parametrize("kind", classes(errors, MasterError), ids=lambda c: c.__name__)
def test_errors_survive_pickling(kind: type[MasterError]) -> None:
    error = kind("what", hint="do", ids={"query": "q"}, position=Position(2, 3), found="x")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is kind
    assert vars(again) == vars(error)


def test_a_subclass_has_its_ancestors_status() -> None:
    class Special(errors.UnknownQueryError):
        pass

    assert status_of(Special("x")) is grpc.StatusCode.NOT_FOUND


def test_the_detail_says_everything() -> None:
    error = planner_errors.UnknownColumnError(
        "no column x", position=Position(2, 7), found="x", hint="did you mean y?", ids={"relation": "r"}
    )
    detail = detail_of(error)
    assert (detail.code, detail.message, detail.line, detail.column) == ("UNKNOWN_COLUMN", "no column x", 2, 7)
    assert (detail.found, detail.hint, dict(detail.ids)) == ("x", "did you mean y?", {"relation": "r"})
    assert detail_of(errors.UnknownQueryError("x")).line == 0
