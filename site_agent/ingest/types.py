"""The Arrow type in which rows of a declared column are stored: the one that Spark itself gives the column."""

from __future__ import annotations

import re
from collections.abc import Callable

import pyarrow as pa

from site_agent.base.errors import ConnectorError

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
}
_DECIMALS = ("DECIMAL", "DEC", "NUMERIC")


def arrow_type(text: str) -> pa.DataType:
    """The Arrow type of a declared type, as in `ARRAY<STRUCT<a: INT, b: STRING>>`.

    Raises:
        ConnectorError: it is no type of docs/sql.md.
    """
    parser = _Parser(text)
    try:
        kind = parser.type()
    except (IndexError, ValueError, KeyError, pa.ArrowException):
        raise ConnectorError(f"{text} is no type that can be pushed", hint="types are in docs/sql.md") from None
    return kind


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens = _TOKEN.findall(text)
        self._place = 0

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
        return _SIMPLE[name]

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
        return pa.field(name, self.type())

    def _inside(self, read: Callable[[], pa.DataType]) -> pa.DataType:
        self._expect("<")
        kind = read()
        self._expect(">")
        return kind

    def _after(self, mark: str, read: Callable[[], pa.DataType]) -> pa.DataType:
        self._expect(mark)
        return read()

    def _expect(self, token: str) -> None:
        if self._next() != token:
            raise ValueError(token)

    def _peek(self) -> str:
        return self._tokens[self._place] if self._place < len(self._tokens) else ""

    def _next(self) -> str:
        token: str = self._tokens[self._place]
        self._place += 1
        return token
