"""Errors of options get the place of their option in the statement."""

from __future__ import annotations

import pytest

from planner.relations.connectors.table import SecretOptionError
from planner.relations.options import OptionError
from planner.sql import AlterBinding, parse_script
from planner.sql.option_ddl import at_option
from planner.values.errors import Position

START = (Position(1, 1), "")


def altered() -> AlterBinding:
    (statement,) = parse_script("ALTER STREAM s\nSET ('size' = '1', 'path' = '/x')")
    assert isinstance(statement, AlterBinding)
    return statement


@pytest.mark.parametrize(
    ("error", "place", "found"),
    [
        (OptionError("no", option="path"), (2, 29), "'/x'"),
        (OptionError("no", option="path", at_name=True), (2, 20), "'path'"),
        (OptionError("no", option="other"), (1, 1), ""),
        (SecretOptionError("no", option="path"), (2, 29), ""),
    ],
)
def test_an_error_is_where_its_option_is(error: OptionError, place: tuple[int, int], found: str) -> None:
    with pytest.raises(OptionError) as caught, at_option(altered().written, START):
        raise error
    assert (caught.value.position, caught.value.found) == (Position(*place), found)
