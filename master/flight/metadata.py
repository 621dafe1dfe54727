"""Answers questions about the catalog and the server: relations, kinds of them, abilities.

Names of relations have neither a catalog nor a schema in front: both are the empty name, as the protocol has it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib.metadata import version
from typing import Any

import pyarrow as pa

from contract.arrow_types import arrow_schema
from master.flight.messages import schema_bytes
from planner.relations.catalog import Relation

Relations = Callable[[], Iterable[Relation]]

_NAME = ""
"""The name of the only catalog and the only schema."""
_REQUIRED, _OPTIONAL = False, True


def _schema(*fields: tuple[str, pa.DataType, bool]) -> pa.Schema:
    return pa.schema([pa.field(name, kind, nullable) for name, kind, nullable in fields])


_CATALOGS = _schema(("catalog_name", pa.string(), _REQUIRED))
_SCHEMAS = _schema(("catalog_name", pa.string(), _OPTIONAL), ("db_schema_name", pa.string(), _REQUIRED))
_KINDS = _schema(("table_type", pa.string(), _REQUIRED))
_TABLES = _schema(
    ("catalog_name", pa.string(), _OPTIONAL),
    ("db_schema_name", pa.string(), _OPTIONAL),
    ("table_name", pa.string(), _REQUIRED),
    ("table_type", pa.string(), _REQUIRED),
)
_COLUMNS = pa.field("table_schema", pa.binary(), nullable=False)
_PRIMARY_KEYS = _schema(
    ("catalog_name", pa.string(), _OPTIONAL),
    ("db_schema_name", pa.string(), _OPTIONAL),
    ("table_name", pa.string(), _REQUIRED),
    ("column_name", pa.string(), _REQUIRED),
    ("key_name", pa.string(), _OPTIONAL),
    ("key_sequence", pa.int32(), _REQUIRED),
)
_FOREIGN_KEYS = _schema(
    *(
        (f"{side}_{name}", pa.string(), name.endswith(("catalog_name", "db_schema_name")))
        for side in ("pk", "fk")
        for name in ("catalog_name", "db_schema_name", "table_name", "column_name")
    ),
    ("key_sequence", pa.int32(), _REQUIRED),
    ("fk_key_name", pa.string(), _OPTIONAL),
    ("pk_key_name", pa.string(), _OPTIONAL),
    ("update_rule", pa.uint8(), _REQUIRED),
    ("delete_rule", pa.uint8(), _REQUIRED),
)
_TYPE_INFO = _schema(
    ("type_name", pa.string(), _REQUIRED),
    ("data_type", pa.int32(), _REQUIRED),
    ("column_size", pa.int32(), _OPTIONAL),
    ("literal_prefix", pa.string(), _OPTIONAL),
    ("literal_suffix", pa.string(), _OPTIONAL),
    ("create_params", pa.list_(pa.field("item", pa.string(), nullable=False)), _OPTIONAL),
    ("nullable", pa.int32(), _REQUIRED),
    ("case_sensitive", pa.bool_(), _REQUIRED),
    ("searchable", pa.int32(), _REQUIRED),
    ("unsigned_attribute", pa.bool_(), _OPTIONAL),
    ("fixed_prec_scale", pa.bool_(), _REQUIRED),
    ("auto_increment", pa.bool_(), _OPTIONAL),
    ("local_type_name", pa.string(), _OPTIONAL),
    ("minimum_scale", pa.int32(), _OPTIONAL),
    ("maximum_scale", pa.int32(), _OPTIONAL),
    ("sql_data_type", pa.int32(), _REQUIRED),
    ("datetime_subcode", pa.int32(), _OPTIONAL),
    ("num_prec_radix", pa.int32(), _OPTIONAL),
    ("interval_precision", pa.int32(), _OPTIONAL),
)

_FACTS: Mapping[int, str | bool | int] = {
    0: "Selat",
    1: version("selat"),
    2: pa.__version__,
    # It is not read-only; it takes SQL, and no Substrait.
    3: False,
    4: True,
    5: False,
    # There are no transactions; a query is cancelled by closing its stream; handles have no timeout.
    8: 0,
    9: False,
    100: 0,
    # Neither catalogs nor schemas can be created, tables can.
    500: False,
    501: False,
    502: True,
    # Names ignore case, and are quoted by back-quotes, which changes nothing about that.
    503: 1,
    504: "`",
    505: 1,
    506: False,
    # NULLs come first.
    507: 1,
}
"""Facts about the server, by their numbers in the protocol."""

_VALUE_TYPES = (
    ("string_value", pa.string()),
    ("bool_value", pa.bool_()),
    ("bigint_value", pa.int64()),
    ("int32_bitmask", pa.int32()),
    ("string_list", pa.list_(pa.string())),
    ("int32_to_int32_list_map", pa.map_(pa.int32(), pa.list_(pa.int32()))),
)
_PLACES = {str: 0, bool: 1, int: 3}
"""The place of a fact's value in the union, by its type."""


def answer(command: Any, relations: Relations) -> pa.Table:
    """Return the answer to a question about what there is.

    Args:
        command: one of `commands.METADATA`.
        relations: returns those that the caller may see.
    """
    match type(command).__name__:
        case "CommandGetCatalogs":
            return _table(_CATALOGS, [(_NAME,)])
        case "CommandGetDbSchemas":
            return _table(_SCHEMAS, [(_NAME, _NAME)] if _is_here(command) else [])
        case "CommandGetTableTypes":
            return _table(_KINDS, [(kind,) for kind in ("SINK", "STREAM", "TABLE", "VIEW")])
        case "CommandGetTables":
            return _tables(command, relations() if _is_here(command) else ())
        case "CommandGetSqlInfo":
            return _facts(command.info)
        case "CommandGetXdbcTypeInfo":
            return _table(_TYPE_INFO, [])
        case "CommandGetPrimaryKeys":
            return _table(_PRIMARY_KEYS, [])
        case _:
            return _table(_FOREIGN_KEYS, [])


def schema_of(command: Any) -> pa.Schema:
    """Return the columns of the answer to a question."""
    return answer(command, tuple).schema


def _is_here(command: Any) -> bool:
    """Return whether a question is about the only catalog and the only schema."""
    catalog = command.HasField("catalog") and command.catalog != _NAME
    named = command.HasField("db_schema_filter_pattern")
    return not catalog and (not named or _matches(command.db_schema_filter_pattern, _NAME))


def _tables(command: Any, relations: Iterable[Relation]) -> pa.Table:
    pattern = command.table_name_filter_pattern if command.HasField("table_name_filter_pattern") else "%"
    kinds = frozenset(kind.upper() for kind in command.table_types)
    found = [
        (relation, relation.kind.value.upper())
        for relation in sorted(relations, key=lambda relation: relation.name)
        if _matches(pattern, relation.name) and (not kinds or relation.kind.value.upper() in kinds)
    ]
    rows = [(_NAME, _NAME, relation.name, kind) for relation, kind in found]
    if not command.include_schema:
        return _table(_TABLES, rows)
    columns = [(schema_bytes(arrow_schema(relation.columns)),) for relation, _ in found]
    return _table(_TABLES.append(_COLUMNS), [(*row, *own) for row, own in zip(rows, columns, strict=True)])


def _matches(pattern: str, name: str) -> bool:
    """Return whether a name is like a pattern of `%` and `_`; case is ignored, as names do."""
    parts = (".*" if part == "%" else "." if part == "_" else re.escape(part) for part in pattern)
    return re.fullmatch("".join(parts), name, re.IGNORECASE | re.DOTALL) is not None


def _facts(wanted: Sequence[int]) -> pa.Table:
    found = {number: _FACTS[number] for number in (wanted or _FACTS) if number in _FACTS}
    places = [_PLACES[type(value)] for value in found.values()]
    own: list[list[object]] = [[] for _ in _VALUE_TYPES]
    offsets = []
    for place, value in zip(places, found.values(), strict=True):
        offsets.append(len(own[place]))
        own[place].append(value)
    values = pa.UnionArray.from_dense(
        pa.array(places, pa.int8()),
        pa.array(offsets, pa.int32()),
        [pa.array(part, kind) for part, (_, kind) in zip(own, _VALUE_TYPES, strict=True)],
        [name for name, _ in _VALUE_TYPES],
        list(range(len(_VALUE_TYPES))),
    )
    schema = _schema(("info_name", pa.uint32(), _REQUIRED), ("value", values.type, _REQUIRED))
    return pa.table([pa.array(found, pa.uint32()), values], schema=schema)


def _table(schema: pa.Schema, rows: Sequence[Sequence[object]]) -> pa.Table:
    columns = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(schema)]
    return pa.table(columns, schema=schema)
