"""Spark SQL types as Arrow types, so that a result without rows still has its schema."""

from __future__ import annotations

import pyarrow as pa

from selat.values import Column

_SIMPLE = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "BYTE": pa.int8(),
    "SMALLINT": pa.int16(),
    "SHORT": pa.int16(),
    "INT": pa.int32(),
    "INTEGER": pa.int32(),
    "BIGINT": pa.int64(),
    "LONG": pa.int64(),
    "FLOAT": pa.float32(),
    "REAL": pa.float32(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
    "TIMESTAMP_NTZ": pa.timestamp("us"),
    "DECIMAL": pa.decimal128(10, 0),
}


def arrow_schema(columns: tuple[Column, ...]) -> pa.Schema:
    """The Arrow schema that Spark gives such columns; a type that is not known here becomes a string."""
    return pa.schema([(c.name, arrow_type(c.type)) for c in columns])


def arrow_type(text: str) -> pa.DataType:
    """The Arrow type of one Spark SQL type, as in `ARRAY<STRUCT<a: INT, b: STRING>>`."""
    name, arguments = _outer(text.strip())
    match name:
        case "DECIMAL" | "NUMERIC" | "DEC" if arguments:
            precision, _, scale = arguments.partition(",")
            return pa.decimal128(int(precision), int(scale or 0))
        case "ARRAY":
            return pa.list_(arrow_type(arguments))
        case "MAP":
            key, value = _split(arguments)
            return pa.map_(arrow_type(key), arrow_type(value))
        case "STRUCT":
            return pa.struct([_field(part) for part in _split(arguments)])
    return _SIMPLE.get(name, pa.string())


def _outer(text: str) -> tuple[str, str]:
    """`NAME<inner>` or `NAME(inner)` as name and inner; inner is empty for a plain name."""
    at = min((i for i in (text.find("<"), text.find("(")) if i >= 0), default=-1)
    if at < 0:
        return text.upper(), ""
    return text[:at].strip().upper(), text[at + 1 : -1]


def _field(text: str) -> pa.Field:
    """`name: TYPE` or `name TYPE`, with or without backquotes and a trailing NOT NULL."""
    separator = ":" if ":" in text.partition("<")[0] else " "
    name, _, rest = text.strip().partition(separator)
    kind = rest.strip()
    nullable = not kind.upper().endswith(" NOT NULL")
    return pa.field(name.strip().strip("`"), arrow_type(kind if nullable else kind[: -len(" NOT NULL")]), nullable)


def _split(text: str) -> list[str]:
    """The parts between commas that are not inside brackets."""
    parts, depth, start = [], 0, 0
    for i, char in enumerate(text):
        depth += (char in "<(") - (char in ">)")
        if char == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [*parts, text[start:]]
