"""Puts the arguments of `spark.sql(text, args=...)` into the text, as literals.

So a text with arguments is planned, gathered, checked and listed as one in which the values were written out, and the
agents get no arguments at all. Spark takes literals and constructors of collections; so does this module.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any

from pyspark.sql.connect.types import proto_schema_to_pyspark_data_type

from contract.client_plans import messages, name_of
from contract.parameters import NoLiteralError, ParameterError, bound, cast, floating, interval, literal
from planner.functions.traits import words
from planner.values.errors import InvalidExpressionError
from planner.values.literals import quoted_text

ARGUMENTS = ("args", "pos_args", "named_arguments", "pos_arguments")
"""The fields of a SQL text, and of the older command, that have values."""

_CONSTRUCTORS = words("array map map_from_arrays map_from_entries named_struct struct")
_PLAIN_TYPE = re.compile(r"[a-z_]+(\(\d+(,\d+)?\))?|(array|map)<[a-z0-9_(),<>]+>")
_DAY_0 = date(1970, 1, 1)


def with_values(relation: Any) -> Any:
    """The relation with the arguments of all its SQL texts put into the texts; itself if there are none.

    Raises:
        InvalidExpressionError: a parameter has no value, or an argument cannot be written as a literal.
    """
    if not any(_given(found) for found in messages(relation) if name_of(found) == "SQL"):
        return relation
    made = type(relation)()
    made.CopyFrom(relation)
    sql: list[Any] = [found for found in messages(made) if name_of(found) == "SQL"]
    for found in sql:
        if _given(found):
            found.query = _bound(found)
            for name in ARGUMENTS:
                found.ClearField(name)
    return made


def _given(sql: Any) -> bool:
    return any(getattr(sql, name) for name in ARGUMENTS)


def _bound(sql: Any) -> str:
    named = {**_written(sql.args.items(), _literal), **_written(sql.named_arguments.items(), _expression)}
    numbers = (*enumerate(sql.pos_args, 1), *enumerate(sql.pos_arguments, len(sql.pos_args) + 1))
    positional = _written(((str(number), value) for number, value in numbers), _argument)
    if named and positional:
        raise _refused(
            "arguments are given both by name and by position",
            "INVALID_QUERY_MIXED_QUERY_PARAMETERS",
            hint="give a dict for :name, or a list for question marks",
        )
    try:
        return bound(str(sql.query), tuple(positional.values()), named)
    except ParameterError as error:
        raise _refused(str(error), error.condition, hint="give it by args=...") from error


def _written(given: Iterable[tuple[str, Any]], write: Callable[[Any], str]) -> dict[str, str]:
    """The literals of arguments, by name."""
    found = {}
    for name, value in given:
        try:
            found[name] = write(value)
        except (NoLiteralError, OverflowError) as error:
            why = "its year is not one from 1 to 9999" if isinstance(error, OverflowError) else error
            raise _refused(
                f"argument {name[:80]} of the SQL text cannot be bound: {why}",
                "INVALID_SQL_ARG",
                hint="literals, array(), map() and struct() of them can be",
            ) from error
    return found


def _argument(message: Any) -> str:
    return _literal(message) if name_of(message) == "Expression.Literal" else _expression(message)


def _expression(message: Any) -> str:
    kind = message.WhichOneof("expr_type")
    if kind == "literal":
        return _literal(message.literal)
    if kind == "alias" and len(message.alias.name) == 1:
        return _expression(message.alias.expr)
    function = message.unresolved_function
    name = function.function_name.lower()
    if kind != "unresolved_function" or name not in _CONSTRUCTORS or function.is_distinct:
        raise NoLiteralError(f"{name or kind} is no literal")
    if name == "struct":
        fields = enumerate(function.arguments, 1)
        return _call("named_struct", (part for place, field in fields for part in _field(field, place)))
    return _call(name, map(_expression, function.arguments))


def _field(message: Any, place: int) -> tuple[str, str]:
    """The name and the value of a field of a structure, as Spark names it."""
    named = message.WhichOneof("expr_type") == "alias"
    return quoted_text(message.alias.name[0] if named else f"col{place}"), _expression(message)


def _literal(message: Any) -> str:
    kind = message.WhichOneof("literal_type") or ""
    if kind == "array" and not message.array.elements:
        types = (message.array.element_type, message.data_type.array.element_type)
        return f"CAST(array() AS ARRAY<{_type(next(filter(_is_type, types), types[0]))}>)"
    write = _LITERALS.get(kind)
    if write is None:
        raise NoLiteralError(f"values of the type {kind or 'unknown'} are not possible here")
    return write(getattr(message, kind))


def _null(kind: Any) -> str:
    return f"CAST(NULL AS {_type(kind)})" if _is_type(kind) else "NULL"


def _is_type(kind: Any) -> bool:
    return kind.WhichOneof("kind") not in (None, "null")


def _type(kind: Any) -> str:
    found = str(proto_schema_to_pyspark_data_type(kind).simpleString()) if _is_type(kind) else ""
    if _PLAIN_TYPE.fullmatch(found) is None:
        raise NoLiteralError(f"values of the type {found or 'unknown'} are not possible here")
    # The plain word depends on the session's settings.
    return re.sub(r"\btimestamp\b", "timestamp_ltz", found)


def _decimal(value: Any) -> str:
    try:
        # Its type is that of its digits, as in Spark: PySpark's client says DECIMAL(10,0) of any.
        return literal(Decimal(value.value))
    except InvalidOperation as error:
        raise NoLiteralError(f"{value.value[:40]} is no decimal number") from error


def _specialized(value: Any) -> str:
    kind = value.WhichOneof("value_type")
    numbers = getattr(value, kind).values if kind else ()
    if not numbers:
        raise NoLiteralError("an array without elements has no type")
    return _call("array", map(_LITERALS[_SPECIALIZED[kind]], numbers))


def _map(value: Any) -> str:
    if len(value.keys) != len(value.values) or not value.keys:
        raise NoLiteralError("a map needs keys, and a value for each")
    return _call("map", (_literal(part) for entry in zip(value.keys, value.values, strict=True) for part in entry))


def _call(name: str, arguments: Iterable[str]) -> str:
    return f"{name}({', '.join(arguments)})"


def _moment(zone: Any) -> Callable[[int], str]:
    return lambda micros: literal(datetime(1970, 1, 1, tzinfo=zone) + timedelta(microseconds=micros))


_SPECIALIZED = {
    "bools": "boolean",
    "ints": "integer",
    "longs": "long",
    "floats": "float",
    "doubles": "double",
    "strings": "string",
}
"""The kind of the elements of a specialized array, by its own kind."""

_LITERALS: Mapping[str, Callable[[Any], str]] = {
    "null": _null,
    **dict.fromkeys(("binary", "boolean", "integer", "string"), literal),
    "byte": lambda value: cast(str(value), "TINYINT"),
    "short": lambda value: cast(str(value), "SMALLINT"),
    "long": lambda value: cast(str(value), "BIGINT"),
    "float": lambda value: floating(value, "FLOAT"),
    "double": lambda value: floating(value, "DOUBLE"),
    "decimal": _decimal,
    "date": lambda days: literal(_DAY_0 + timedelta(days=days)),
    "timestamp": _moment(UTC),
    "timestamp_ntz": _moment(None),
    "day_time_interval": interval,
    "year_month_interval": lambda months: f"INTERVAL '{months}' MONTH",
    "array": lambda value: _call("array", map(_literal, value.elements)),
    "specialized_array": _specialized,
    "map": _map,
}
"""How each kind of literal is written; the time of day, calendar intervals and structures are not among them."""


def _refused(message: str, condition: str, *, hint: str) -> InvalidExpressionError:
    return InvalidExpressionError(message, hint=hint, ids={"condition": condition})
