"""Between Spark's types and the text in which a catalog names them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType

from planner.values.literals import quoted_name
from site_agent.engine import AnalysisError, Field
from site_agent.engine.failures import SPARK_ERRORS, analysis_error


def schema_of(columns: Sequence[Field]) -> StructType:
    """Spark's schema of declared columns."""
    return StructType([StructField(c.name, type_of(c.type)) for c in columns])


@lru_cache(maxsize=1024)
def type_of(kind: str) -> DataType:
    """Spark's type of that name.

    Raises:
        AnalysisError: it is none, or more than one; without a place, because it is no part of a statement.
    """
    try:
        schema = DataType.fromDDL(f"value {kind}")
    except SPARK_ERRORS as error:
        said = analysis_error(error, "")
        raise AnalysisError(said.message, condition=said.condition, line=0, column=0, fragment=kind) from error
    if not isinstance(schema, StructType) or len(schema.fields) != 1:
        raise AnalysisError(
            f"{kind} is not a single type", condition="UNSUPPORTED_DATATYPE", line=0, column=0, fragment=kind
        )
    return schema.fields[0].dataType


def fields_of(schema: StructType) -> tuple[Field, ...]:
    """Columns of a Spark schema, types in capitals."""
    return tuple(Field(f.name, type_name(f.dataType)) for f in schema.fields)


def type_name(kind: DataType) -> str:
    """A type as a declaration would write it, as in `STRUCT<start: TIMESTAMP, end: TIMESTAMP>`."""
    if isinstance(kind, StructType):
        parts = (f"{_plain_or_quoted(f.name)}: {type_name(f.dataType)}" for f in kind.fields)
        return f"STRUCT<{', '.join(parts)}>"
    if isinstance(kind, ArrayType):
        return f"ARRAY<{type_name(kind.elementType)}>"
    if isinstance(kind, MapType):
        return f"MAP<{type_name(kind.keyType)}, {type_name(kind.valueType)}>"
    return str(kind.simpleString()).upper()


def _plain_or_quoted(name: str) -> str:
    plain = name.isascii() and name.replace("_", "a").isalnum() and not name[0].isdigit()
    return name if plain else quoted_name(name)
