"""Values in the place of question marks."""

from __future__ import annotations

import pytest

from selat.dbapi.binding import bound
from selat.dbapi.errors import DataError, ProgrammingError


def test_values_are_literals() -> None:
    assert bound("SELECT '?' WHERE a = ? AND b = ?", (1, "?'")) == "SELECT '?' WHERE a = 1 AND b = '?\\''"


@pytest.mark.parametrize("values", [(), (1,), (1, 2, 3)])
def test_as_many_values_as_question_marks(values: tuple[int, ...]) -> None:
    with pytest.raises(ProgrammingError, match="2 question marks"):
        bound("SELECT ?, ?", values)


def test_errors_are_the_standards() -> None:
    with pytest.raises(ProgrammingError, match="cannot have this"):
        bound("SELECT 'x, ?", (1,))
    with pytest.raises(ProgrammingError, match="no value for parameter :x"):
        bound("SELECT ?, :x", (1,))
    with pytest.raises(DataError, match="object"):
        bound("SELECT ?", (object(),))
