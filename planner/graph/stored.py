"""Expressions as plain values for JSON, and back; places in the text are forgotten.

page > 2    {"": "GT", "this": {"": "Column", "this": {"": "Identifier", ...}}, "expression": ...}
"""

from __future__ import annotations

from typing import Any

from planner.sql.dialect import exp

CLASS = ""
"""The key of the name of a value's class, which is no name of an argument."""
_ENUM = "enum"


def stored_expression(node: exp.Expr) -> dict[str, Any]:
    """The expression as a plain value."""
    arguments = {key: _stored(value) for key, value in node.args.items() if value is not None and value != []}
    return {CLASS: type(node).__name__, **arguments}


def loaded_expression(value: dict[str, Any]) -> exp.Expr:
    """The expression that was stored.

    Raises:
        ValueError: it has a class that there is not.
    """
    name = value[CLASS]
    kind = getattr(exp, name, None)
    if not (isinstance(kind, type) and issubclass(kind, exp.Expr)):
        raise ValueError(f"there is no expression of the class {name}")
    return kind(**{key: _loaded(argument) for key, argument in value.items() if key != CLASS})


def _stored(value: Any) -> Any:
    if isinstance(value, exp.Expr):
        return stored_expression(value)
    if isinstance(value, list):
        return [_stored(item) for item in value]
    return {_ENUM: value.name} if isinstance(value, exp.DataType.Type) else value


def _loaded(value: Any) -> Any:
    if isinstance(value, list):
        return [_loaded(item) for item in value]
    if not isinstance(value, dict):
        return value
    return exp.DataType.Type[value[_ENUM]] if _ENUM in value else loaded_expression(value)
