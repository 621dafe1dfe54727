"""Puts values into a statement in the place of its question marks, as literals of SQL."""

from __future__ import annotations

from collections.abc import Sequence

from contract import parameters
from contract.parameters import NoLiteralError, ParameterError
from selat.dbapi.errors import DataError, ProgrammingError


def bound(statement: str, values: Sequence[object]) -> str:
    """The statement with the values in it.

    Raises:
        ProgrammingError: there are more values than question marks, or fewer, or other parameters.
        DataError: a value has no literal.
    """
    try:
        marks = parameters.question_marks(statement)
        if marks != len(values):
            raise ProgrammingError(f"{len(values)} values are given, and the statement has {marks} question marks")
        return parameters.bound(statement, tuple(map(parameters.literal, values)))
    except ParameterError as error:
        raise ProgrammingError(str(error)) from error
    except NoLiteralError as error:
        raise DataError(str(error)) from error
