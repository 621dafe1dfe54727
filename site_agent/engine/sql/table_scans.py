"""What each scan of a table must deliver, read from the plan that Spark's optimiser makes of a statement.

The optimiser knows which columns a scan needs and which conditions its rows have to fulfil, through joins, sub-queries
and set operations, and so no other analysis of SQL is needed. Tables are views over an RDD without rows: of a view that
is known to be empty the optimiser would leave nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

from planner.values.literals import quoted_name
from planner.values.scans import KeyFilter, SparkExpression, TableScan, Threshold
from site_agent.engine import Field
from site_agent.engine.sql.java import helper
from site_agent.engine.sql.types import schema_of


def table_view(session: SparkSession, name: str, columns: Sequence[Field]) -> JavaObject:
    """Make a view that stands for a table with any rows; returns its plan. Raises AnalysisError for unknown types."""
    spark = session._jsparkSession
    schema = spark.parseDataType(schema_of(columns).json())
    frame = spark.createDataFrame(session.sparkContext._jsc.emptyRDD(), schema)
    frame.createOrReplaceTempView(quoted_name(name))
    return frame.logicalPlan()


def table_scans(session: SparkSession, rows: DataFrame, tables: Mapping[str, JavaObject]) -> tuple[TableScan, ...]:
    """The scans of a statement's optimised plan; none of a table that its result does not depend on.

    Args:
        session: Spark.
        rows: the statement's, not computed.
        tables: what `table_view` returned, by name.

    Raises:
        PySparkException: the optimiser refuses the statement.
    """
    gateway = session.sparkContext._gateway
    parts = gateway.jvm.java.util.ArrayList()
    parts.add(rows._jdf.queryExecution().optimizedPlan())
    for name, plan in tables.items():
        parts.add(name)
        parts.add(plan)
    return tuple(map(_scan, json.loads(helper(gateway, "TableScans").apply(parts))))


def _scan(value: Mapping[str, Any]) -> TableScan:
    filters = tuple(dict.fromkeys(KeyFilter(*found) for found in value["filters"]))
    conditions = tuple(map(_expression, value["conditions"]))
    return TableScan(
        value["table"],
        tuple(value["columns"]),
        conditions,
        filters,
        value["distinct"],
        tuple(value["only_in_conditions"]),
        tuple(value["summed"]),
        tuple(value["counted"]),
        tuple(dict.fromkeys(Threshold(*found) for found in value["thresholds"])),
        tuple((column, tuple(map(_expression, found))) for column, found in value["functions"]),
    )


def _expression(value: Mapping[str, Any]) -> SparkExpression:
    return SparkExpression(
        kind=value["kind"],
        type=value["type"].upper(),
        text=value.get("text"),
        arguments=tuple(map(_expression, value["arguments"])),
        sql=value.get("sql", ""),
    )
