"""Types of columns, as SQLAlchemy has them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sqlalchemy import types

_DECIMAL = re.compile(r"DECIMAL\((\d+),(\d+)\)")

_TYPES: Mapping[str, type[types.TypeEngine[Any]]] = {
    "BOOLEAN": types.BOOLEAN,
    "TINYINT": types.SMALLINT,
    "SMALLINT": types.SMALLINT,
    "INT": types.INTEGER,
    "BIGINT": types.BIGINT,
    "FLOAT": types.REAL,
    "DOUBLE": types.DOUBLE,
    "STRING": types.String,
    "BINARY": types.LargeBinary,
    "DATE": types.DATE,
}


class Spelled(types.UserDefinedType[Any]):
    """A type that SQLAlchemy has no class for: an array, a map, a structure or an interval.

    Args:
        text: how Selat spells it.
    """

    cache_ok = True

    def __init__(self, text: str) -> None:
        self.text = text

    def get_col_spec(self, **_: Any) -> str:
        """Return how Selat spells it."""
        return self.text


def type_of(text: str) -> types.TypeEngine[Any]:
    """The type that Selat spells like this."""
    decimal = _DECIMAL.fullmatch(text.replace(" ", "").upper())
    if decimal is not None:
        return types.DECIMAL(int(decimal[1]), int(decimal[2]))
    if text.upper() == "TIMESTAMP":
        # Rows have instants, in UTC.
        return types.TIMESTAMP(timezone=True)
    if text.upper() == "TIMESTAMP_NTZ":
        return types.TIMESTAMP()
    found = _TYPES.get(text.upper())
    return Spelled(text) if found is None else found()
