"""Statements as tickets and handles.

A handle holds its statement and the values for it, so that no state of a client is kept here: handles need not be
closed, outlive a restart of the master, and are checked like texts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from contract import parameters
from contract.parameters import NoLiteralError, ParameterError
from master.base.errors import InvalidRequestError


@dataclass(frozen=True, slots=True)
class Handle:
    """A statement, and what its question marks stand for."""

    statement: str
    literals: tuple[str, ...] = ()

    @classmethod
    def of(cls, data: bytes) -> Handle:
        """Return the handle that was written so. Raises InvalidRequestError."""
        try:
            statement, *literals = json.loads(data)
        except ValueError as error:
            raise InvalidRequestError("there is no such statement", hint="prepare it again") from error
        if not all(isinstance(part, str) for part in (statement, *literals)):
            raise InvalidRequestError("there is no such statement", hint="prepare it again")
        return cls(statement, tuple(literals))

    @property
    def data(self) -> bytes:
        """Return the handle as clients hold it."""
        return json.dumps([self.statement, *self.literals]).encode()

    @property
    def marks(self) -> int:
        """Return how many values the statement takes; those that cannot be read take none."""
        try:
            return parameters.question_marks(self.statement)
        except ParameterError:
            return 0

    @property
    def text(self) -> str:
        """Return the statement with its values. Raises InvalidRequestError when one is missing."""
        if not self.marks:
            return self.statement
        try:
            return parameters.bound(self.statement, self.literals)
        except ParameterError as error:
            raise InvalidRequestError(str(error), hint="give a value for each question mark") from error

    def with_values(self, values: Sequence[object]) -> Handle:
        """Return the handle with these values, in the place of those that it has.

        Raises:
            InvalidRequestError: there are more or fewer than question marks, or one has no literal.
        """
        if self.marks != len(values):
            raise InvalidRequestError(
                f"{len(values)} values are given, and the statement has {self.marks} question marks"
            )
        try:
            return replace(self, literals=tuple(map(parameters.literal, values)))
        except NoLiteralError as error:
            raise InvalidRequestError(str(error)) from error
