"""Column types of declarations: Spark SQL's names, normalised."""

from __future__ import annotations

from planner.sql.cursor import Cursor
from planner.sql.dialect import quoted
from planner.values.errors import InvalidDefinitionError

SIMPLE_TYPES = (
    "BOOLEAN",
    "TINYINT",
    "SMALLINT",
    "INT",
    "BIGINT",
    "FLOAT",
    "DOUBLE",
    "STRING",
    "BINARY",
    "DATE",
    "TIMESTAMP",
)
ALIASES = {"BYTE": "TINYINT", "SHORT": "SMALLINT", "INTEGER": "INT", "LONG": "BIGINT", "REAL": "FLOAT"}
DECIMAL_NAMES = ("DECIMAL", "DEC", "NUMERIC")
MAX_PRECISION = 38
MAX_DIGITS = 9
MAX_DEPTH = 16

HINT = f"Possible are {', '.join(SIMPLE_TYPES)}, DECIMAL(p,s), ARRAY<type>, MAP<type,type> and STRUCT<name:type,...>."


def parse_type(cursor: Cursor, *, depth: int = 0) -> str:
    """The type that comes next, in capitals without blanks.

    Raises:
        SqlSyntaxError, InvalidDefinitionError: at the token that is wrong.
    """
    before = (cursor.position, cursor.found)
    name = cursor.name("a type").upper()
    name = ALIASES.get(name, name)
    if name in SIMPLE_TYPES:
        return name
    if name in DECIMAL_NAMES:
        return _decimal(cursor)
    if name in ("ARRAY", "MAP", "STRUCT"):
        if depth == MAX_DEPTH:
            raise InvalidDefinitionError(
                f"types can be nested {MAX_DEPTH} deep at most", position=before[0], found=before[1], hint=HINT
            )
        return _nested(cursor, name, depth + 1)
    raise InvalidDefinitionError(f"there is no type {before[1]}", position=before[0], found=before[1], hint=HINT)


def _decimal(cursor: Cursor) -> str:
    if not cursor.take("("):
        return "DECIMAL(10,0)"
    place, found = cursor.position, cursor.found
    precision = _number(cursor)
    scale = _number(cursor) if cursor.take(",") else 0
    cursor.expect(")")
    if not 1 <= precision <= MAX_PRECISION or scale > precision:
        raise InvalidDefinitionError(
            f"DECIMAL({precision},{scale}) is not possible",
            position=place,
            found=found,
            hint=f"The precision is 1 to {MAX_PRECISION}, the scale 0 to the precision.",
        )
    return f"DECIMAL({precision},{scale})"


def _number(cursor: Cursor) -> int:
    if not (cursor.found.isdecimal() and len(cursor.found) <= MAX_DIGITS):
        raise cursor.error("a whole number is expected")
    value = int(cursor.found)
    cursor.index += 1
    return value


def _nested(cursor: Cursor, name: str, depth: int) -> str:
    cursor.expect("<", hint=HINT)
    parts = [_field(cursor, depth) if name == "STRUCT" else parse_type(cursor, depth=depth)]
    while name != "ARRAY" and cursor.take(","):
        parts.append(_field(cursor, depth) if name == "STRUCT" else parse_type(cursor, depth=depth))
    if name == "MAP" and len(parts) != 2:
        raise cursor.error("MAP has a key type and a value type", hint=HINT)
    cursor.expect(">", hint=HINT)
    return f"{name}<{','.join(parts)}>"


def _field(cursor: Cursor, depth: int) -> str:
    name = cursor.name("a field's name")
    cursor.take(":")
    return f"{quoted(name)}:{parse_type(cursor, depth=depth)}"
