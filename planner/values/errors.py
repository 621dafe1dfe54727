"""Errors of the planner: one root, few leaves; what is wrong, where, and what would be right are attributes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the submitted text; line and column count from 1."""

    line: int
    column: int


class PlannerError(Exception):
    """Root. `code` is the stable name listed in docs/errors.md."""

    code = "PLANNER_ERROR"

    def __init__(
        self,
        message: str,
        *,
        position: Position | None = None,
        found: str = "",
        hint: str = "",
        ids: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.position = position
        self.found = found
        self.hint = hint
        self.ids = dict(ids or {})

    def __reduce__(self) -> tuple[object, ...]:
        keywords = {"position": self.position, "found": self.found, "hint": self.hint, "ids": self.ids}
        return (_rebuild, (type(self), self.message, keywords))


def _rebuild(kind: type[PlannerError], message: str, keywords: dict[str, Any]) -> PlannerError:
    return kind(message, **keywords)


class SqlSyntaxError(PlannerError):
    """The text is not a statement of docs/sql.md."""

    code = "SYNTAX_ERROR"


class UnsupportedSqlError(PlannerError):
    """The text is SQL, but Selat cannot run it over streams; the hint says what is possible."""

    code = "UNSUPPORTED_SQL"


class UnknownRelationError(PlannerError):
    code = "UNKNOWN_RELATION"


class UnknownColumnError(PlannerError):
    code = "UNKNOWN_COLUMN"


class UnknownSiteError(PlannerError):
    code = "UNKNOWN_SITE"


class InvalidDefinitionError(PlannerError):
    """A stream, table, option or topology that contradicts itself or lacks something."""

    code = "INVALID_DEFINITION"


class InvalidExpressionError(PlannerError):
    """Spark refuses an expression: unknown function, wrong types."""

    code = "INVALID_EXPRESSION"


class PlacementError(PlannerError):
    """No site can take a stage."""

    code = "NO_PLACEMENT"


class UnknownFunctionError(PlannerError):
    code = "UNKNOWN_FUNCTION"


class InvalidFunctionError(PlannerError):
    """A Python function's definition or module is wrong, or a site cannot load it."""

    code = "INVALID_FUNCTION"


class UnknownFrameworkError(PlannerError):
    """No framework of that name is registered with the lease manager."""

    code = "UNKNOWN_FRAMEWORK"


class IllegalTaskMoveError(PlannerError):
    """A batch task got an event that its phase knows no move for: a defect of ours."""

    code = "ILLEGAL_TASK_MOVE"


class IllegalSlotMoveError(PlannerError):
    """An event came in a state of a slot that knows no move for it: a defect of the lease manager."""

    code = "ILLEGAL_SLOT_MOVE"
