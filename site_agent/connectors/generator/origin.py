"""The values that columns of presets are made from, and the types that may hold them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from site_agent.base.errors import ConnectorError
from site_agent.connectors.generator.columns import base_type
from site_agent.engine import Field


@dataclass(frozen=True, slots=True)
class Origin:
    """The values of a preset depend on this, besides the row number."""

    site: str
    seed: int
    born_us: str
    """SQL for the row's event time in microseconds."""
    gap_us: str = "0L"
    """SQL for the microseconds from one row to the next at the rate at which the row is born."""


PresetColumn = Callable[[Field, Origin], str]
"""SQL over `id` for a column's value; raises ConnectorError for a type that cannot hold it."""


def as_text(column: Field, sql: str) -> str:
    """The SQL of a text. Raises ConnectorError where the column holds none."""
    if base_type(column) != "STRING":
        raise ConnectorError(f"the preset makes texts for column {column.name}, which is {column.type}", hint="STRING")
    return sql


def as_number(column: Field, sql: str) -> str:
    """The SQL of a number, as the column's type. Raises ConnectorError where the column holds none."""
    if base_type(column) not in ("TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DECIMAL"):
        raise ConnectorError(
            f"the preset makes numbers for column {column.name}, which is {column.type}", hint="DOUBLE, or BIGINT"
        )
    return f"CAST({sql} AS {column.type})"


def as_time(column: Field, micros: str) -> str:
    """The SQL of an instant, given microseconds since 1970. Raises ConnectorError where the column holds none."""
    if base_type(column) != "TIMESTAMP":
        raise ConnectorError(
            f"the preset makes times for column {column.name}, which is {column.type}", hint="TIMESTAMP"
        )
    return f"timestamp_micros({micros})"
