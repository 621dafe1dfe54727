"""How an error looks, and the exit code it becomes."""

from __future__ import annotations

import pytest

import selat
from selat.cli.base import errors
from selat.cli.base.errors import ExitCode
from selat.errors import Detail

SQL = "SELECT user_id,\n\tcount(nope)  \nFROM clicks"


def unknown(line: int, column: int, found: str = "nope") -> selat.StatementError:
    detail = Detail(line=line, column=column, found=found, hint="columns of clicks: user_id, page")
    return selat.StatementError("no column is named nope", code="UNKNOWN_COLUMN", detail=detail)


def test_the_line_is_quoted_with_a_caret_under_the_place() -> None:
    assert errors.render(unknown(2, 8), SQL).splitlines() == [
        "error[UNKNOWN_COLUMN]: no column is named nope",
        "   2 | \tcount(nope)",
        "     | \t      ^^^^",
        "hint: columns of clicks: user_id, page",
    ]


def test_wide_characters_before_the_place() -> None:
    assert errors.render(unknown(1, 14), "SELECT '日本', nope").splitlines()[1:3] == [
        "   1 | SELECT '日本', nope",
        "     | " + " " * 15 + "^^^^",
    ]


def test_one_caret_where_what_was_found_is_not_there() -> None:
    assert errors.render(unknown(1, 8, found="end of text"), SQL).splitlines()[2] == "     |        ^"


@pytest.mark.parametrize("line", [0, 4])
def test_without_a_place_nothing_is_quoted(line: int) -> None:
    assert errors.render(unknown(line, 1), SQL).splitlines() == [
        "error[UNKNOWN_COLUMN]: no column is named nope",
        "hint: columns of clicks: user_id, page",
    ]


def test_colours_are_only_added() -> None:
    colored = errors.render(unknown(1, 8), SQL, colored=True)
    assert colored.startswith("\x1b[31m\x1b[1merror[UNKNOWN_COLUMN]\x1b[0m: ")


def test_as_object() -> None:
    assert errors.as_object(unknown(2, 8)) == {
        "code": "UNKNOWN_COLUMN",
        "message": "no column is named nope",
        "line": 2,
        "column": 8,
        "found": "nope",
        "hint": "columns of clicks: user_id, page",
        "ids": {},
    }
    assert errors.as_object(selat.NotFound("x"))["line"] is None


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (selat.QueryFailed, 1),
        (selat.ServerFault, 1),
        (selat.InvalidArgument, 2),
        (selat.StatementError, 3),
        (selat.NotFound, 4),
        (selat.Unavailable, 5),
        (selat.ConnectionLost, 5),
        (selat.TimedOut, 6),
    ],
)
def test_exit_codes(kind: type[selat.SelatError], code: int) -> None:
    assert errors.exit_code(kind("x")) == ExitCode(code)
