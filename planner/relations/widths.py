"""How many bytes a row is taken to have: the sum over its columns.

1 BOOLEAN, TINYINT    2 SMALLINT    4 INT, FLOAT, DATE    8 BIGINT, DOUBLE, TIMESTAMP    16 DECIMAL and windows
20 STRING, BINARY     40 other nested
"""

from __future__ import annotations

from collections.abc import Iterable

from planner.relations.catalog import Column

_BYTES = {"BOOLEAN": 1, "TINYINT": 1, "SMALLINT": 2, "INT": 4, "FLOAT": 4, "DATE": 4, "DECIMAL": 16}
_BYTES |= {"BIGINT": 8, "DOUBLE": 8, "TIMESTAMP": 8, "STRING": 20, "BINARY": 20}
_WINDOW_TYPE = "STRUCT<START:TIMESTAMP"
_WINDOW_BYTES = 16
_NESTED_BYTES = 40
_UNKNOWN_BYTES = 8


def row_bytes(columns: Iterable[Column]) -> int:
    """Bytes of a row of these columns."""
    return sum(type_bytes(column.type) for column in columns)


def type_bytes(name: str) -> int:
    """Bytes of a value of a type; a type that is not known yet counts 8."""
    upper = name.upper().replace(" ", "")
    if not upper:
        return _UNKNOWN_BYTES
    if upper.startswith(_WINDOW_TYPE):
        return _WINDOW_BYTES
    return _BYTES.get(upper.partition("(")[0], _NESTED_BYTES)
