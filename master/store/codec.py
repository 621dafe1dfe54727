"""Frozen dataclasses to JSON values and back, by their type hints, for what the store keeps as text.

Fields that a stored value lacks take their default: an older state file can still be read after fields were added.
A value of a field that may have several classes says which one it has.
"""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime, timedelta
from enum import Enum
from functools import cache
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from contract.times import duration_us, from_us, to_us
from planner.graph.ids import TaskId, VertexId
from planner.graph.operators import Operator
from planner.graph.stored import CLASS, loaded_expression, stored_expression
from planner.sql.dialect import exp

T = TypeVar("T")

_PLAIN = frozenset({str, int, float, bool, type(None)})
"""Values that are JSON already."""


def dumps(value: object) -> str:
    """Canonical text: equal values give equal text."""
    return json.dumps(_encode(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def loads(kind: type[T], text: str) -> T:
    """The value in a text.

    Raises:
        TypeError, KeyError, ValueError: the text is not of that type.
    """
    return _decode(kind, json.loads(text))  # type: ignore[no-any-return]


def _encode(value: object) -> Any:
    # The most frequent first: a query of a few stages has thousands of values.
    if type(value) in _PLAIN:
        return value
    if is_dataclass(value) and not isinstance(value, type):
        named = {CLASS: type(value).__name__} if isinstance(value, Operator) else {}
        return named | {name: _encode(getattr(value, name)) for name in _field_names(type(value))}
    if isinstance(value, TaskId | VertexId):
        return str(value)
    if isinstance(value, exp.Expr):
        return stored_expression(value)
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return to_us(value)
    if isinstance(value, timedelta):
        return duration_us(value)
    if isinstance(value, Mapping):
        return {str(key): _encode(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [_encode(item) for item in value]
    return value


def _decode(kind: Any, value: Any) -> Any:
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        kinds = [argument for argument in arguments if argument is not type(None)]
        if value is None or len(kinds) == 1:
            return None if value is None else _decode(kinds[0], value)
        return _decode(next(kind for kind in kinds if kind.__name__ == value[CLASS]), value)
    if origin is tuple:
        return tuple(_decode(arguments[0], item) for item in value)
    if origin is not None and issubclass(origin, Mapping):
        return {_decode(arguments[0], key): _decode(arguments[1], item) for key, item in value.items()}
    if isinstance(kind, type) and issubclass(kind, exp.Expr):
        return loaded_expression(value)
    if is_dataclass(kind):
        hints = _hints(cast(type, kind))
        return kind(**{name: _decode(hints[name], item) for name, item in value.items() if name in hints})  # type: ignore[operator]
    return _decode_scalar(kind, value)


def _decode_scalar(kind: Any, value: Any) -> Any:
    if kind is datetime:
        return from_us(value)
    if kind is timedelta:
        return timedelta(microseconds=value)
    if kind in (TaskId, VertexId):
        return kind.parse(value)
    if kind is float:
        return float(value)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    return value


@cache
def _field_names(kind: type) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


@cache
def _hints(kind: type) -> dict[str, Any]:
    return get_type_hints(kind)
