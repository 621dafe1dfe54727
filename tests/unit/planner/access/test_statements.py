"""Every statement has a right."""

from __future__ import annotations

from typing import get_args

from planner.access.roles import Right
from planner.access.statements import STATEMENTS
from planner.sql import statements
from planner.sql.statements import Statement


def test_every_statement_is_in_the_table() -> None:
    assert set(STATEMENTS) == set(get_args(Statement))


def test_create_function_is_a_right_of_its_own() -> None:
    own = {kind for kind, right in STATEMENTS.items() if right is Right.CREATE_FUNCTION}
    assert own == {statements.CreateFunction, statements.DropFunction}
