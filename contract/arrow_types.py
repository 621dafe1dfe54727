"""The Arrow type of a column: the one that Spark itself gives a column of the declared type."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Protocol

import pyarrow as pa

_TOKEN = re.compile(r"\s*(`(?:[^`]|``)*`|\w+|[<>(),:])")

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
}
_DECIMALS = ("DECIMAL", "DEC", "NUMERIC")


def arrow_type(text: str, *, unknown: pa.DataType | None = None) -> pa.DataType:
    """The Arrow type of a Spark SQL type, as in `ARRAY<STRUCT<a: INT, b: STRING>>`.

    Args:
        text: the SQL type.
        unknown: stands for types that are not known here, also inside others; None: they are refused.

    Raises:
        ValueError: the text is no type, or an unknown one.
    """
    try:
        return _Parser(text, unknown).type()
    except (IndexError, ValueError, pa.ArrowException):
        raise ValueError(f"the type {text} has no equal in Arrow") from None


class Column(Protocol):
    """The name and the SQL type of a column."""

    @property
    def name(self) -> str: ...

    @property
    def type(self) -> str: ...


def arrow_schema(columns: Iterable[Column]) -> pa.Schema:
    """The Arrow schema that Spark gives such columns; strings stand for types that are not known here."""
    return pa.schema([(column.name, arrow_type(column.type, unknown=pa.string())) for column in columns])


class _Parser:
    def __init__(self, text: str, unknown: pa.DataType | None) -> None:
        self._tokens = _TOKEN.findall(text)
        self._place = 0
        self._unknown = unknown

    def type(self) -> pa.DataType:
        name = self._next().upper()
        if name in _DECIMALS:
            return pa.decimal128(*self._numbers())
        if name == "ARRAY":
            return self._inside(lambda: pa.list_(self.type()))
        if name == "MAP":
            return self._inside(lambda: pa.map_(self.type(), self._after(",", self.type)))
        if name == "STRUCT":
            return self._inside(lambda: pa.struct(self._fields()))
        if name in _SIMPLE and self._at_end():
            return _SIMPLE[name]
        return self._skipped(name)

    def _skipped(self, name: str) -> pa.DataType:
        """The type that stands for an unknown one, whose name and arguments may be several tokens."""
        if self._unknown is None:
            raise ValueError(name)
        depth = 0
        while depth or not self._at_end():
            token = self._next()
            depth += (token in "<(") - (token in ">)")
        return self._unknown

    def _numbers(self) -> tuple[int, int]:
        if self._peek() != "(":
            return 10, 0
        self._next()
        precision, scale = int(self._next()), 0
        if self._peek() == ",":
            scale = self._after(",", lambda: int(self._next()))
        self._expect(")")
        return precision, scale

    def _fields(self) -> list[pa.Field]:
        fields = [self._field()]
        while self._peek() == ",":
            fields.append(self._after(",", self._field))
        return fields

    def _field(self) -> pa.Field:
        name = self._next()
        if name.startswith("`"):
            name = name[1:-1].replace("``", "`")
        if self._peek() == ":":
            self._next()
        kind, nullable = self.type(), True
        if self._peek().upper() == "NOT":
            self._next()
            self._expect("NULL")
            nullable = False
        return pa.field(name, kind, nullable)

    def _inside(self, read: Callable[[], pa.DataType]) -> pa.DataType:
        self._expect("<")
        kind = read()
        self._expect(">")
        return kind

    def _after(self, mark: str, read: Callable[[], pa.DataType]) -> pa.DataType:
        self._expect(mark)
        return read()

    def _expect(self, token: str) -> None:
        if self._next().upper() != token:
            raise ValueError(token)

    def _at_end(self) -> bool:
        return self._peek().upper() in ("", ",", ">", "NOT")

    def _peek(self) -> str:
        return self._tokens[self._place] if self._place < len(self._tokens) else ""

    def _next(self) -> str:
        token: str = self._tokens[self._place]
        self._place += 1
        return token
