"""Decides about the parts of a client's plan, one by one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from planner.connect.allowed import FIELDS, FUNCTION_NAMES
from planner.functions.table import REASONS
from planner.values.errors import UnsupportedSqlError


@dataclass(frozen=True, slots=True)
class PlanPart:
    """A field that is set in a message of a plan."""

    message: str
    """The message's full name without the prefix of the protocol's package."""
    field: str
    """The field's name; for one that the protocol's classes do not know, `unknown`."""
    text: str = ""
    """The value, if it is one text."""


def refusal(part: PlanPart) -> str:
    """The reason why a part is refused; empty: it is allowed."""
    if part.field not in FIELDS.get(part.message, ()):
        return f"{part.message}.{part.field} is not possible"
    names = FUNCTION_NAMES.get(part.message)
    if names is None or part.field != "function_name" or part.text.lower() in names:
        return ""
    reason = REASONS.get(part.text.lower(), "it is not a function that a plan may call")
    return f"function {part.text} cannot be called: {reason}"


def check_plan(parts: Iterable[PlanPart]) -> None:
    """Raises UnsupportedSqlError at the first part that is refused, with the way that there is."""
    for part in parts:
        reason = refusal(part)
        if reason:
            raise UnsupportedSqlError(reason, found=f"{part.message}.{part.field}", hint=hint_for(part))


def hint_for(part: PlanPart) -> str:
    """Return what to do instead of a part that is refused."""
    return _HINTS.get(part.field) or _HINTS.get(part.message) or "docs/spark-connect.md lists what a plan may have"


_HINTS = {
    "data_source": "declare the files as a table of Selat (CREATE TABLE ... WITH (...)), and read it by its name",
    "is_streaming": "streams are read by Selat's own SQL and client: selat sql",
    "with_watermark": "streams are read by Selat's own SQL and client: selat sql",
    "common_inline_user_defined_function": "make a function of Selat (CREATE FUNCTION), or compute at the client",
    "map_partitions": "compute at the client: toPandas() and toArrow() give all rows",
    "group_map": "compute at the client: toPandas() and toArrow() give all rows",
    "udt": "use Spark's own types",
}
