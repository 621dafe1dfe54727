"""The options of bindings are checked with their declaration, at their place."""

from __future__ import annotations

import pytest

from planner.relations.catalog import Column, Relation, RelationKind
from planner.relations.connectors.table import check_binding
from planner.relations.options import OptionError
from planner.sql import CreateRelation, parse_script
from planner.values.errors import InvalidDefinitionError, Position

STREAM = "CREATE STREAM s (v INT, ts TIMESTAMP, WATERMARK FOR ts) "
ARRIVING = "CREATE STREAM s (v INT, WATERMARK FOR arrived) "
SINK = "CREATE SINK s (day DATE, n BIGINT, x DOUBLE) AT us "
PARQUET = "'connector' = 'parquet', 'path' = '/out'"


@pytest.mark.parametrize(
    "sql",
    [
        STREAM + "AT us WITH ('connector' = 'push')",
        STREAM + "WITH ('connector' = 'push', 'retention' = '2 hours', 'max_ahead' = 'none') "
        "AT us, AT eu WITH ('from' = 'latest')",
        STREAM + "AT us WITH ('connector' = 'push', 'retention_bytes' = '1_000_000', 'rows_per_second' = '0.5',"
        " 'idle_timeout' = '1 min')",
        ARRIVING + "AT us WITH ('connector' = 'push') AT eu WITH ('connector' = 'generator') "
        "AT ap WITH ('connector' = 'files', 'path' = '/x', 'format' = 'csv')",
        STREAM + "AT us WITH ('connector' = 'anothers', 'path' = '/x', 'whatever' = 'y')",
        STREAM
        + "WITH ('connector' = 'generator', 'column.v.null_fraction' = '1') AT us WITH ('column.V' = 'sequence')",
        f"{SINK} WITH ({PARQUET}, 'partition_by' = 'day, n', 'roll_interval' = '5 s', 'compression' = 'gzip')",
        f"CREATE SINK s AT us WITH ({PARQUET}, 'partition_by' = 'anything', 'target_file_bytes' = '1')",
    ],
)
def test_what_is_right_is_taken(sql: str) -> None:
    (statement,) = parse_script(sql)
    assert isinstance(statement, CreateRelation)


@pytest.mark.parametrize(
    ("sql", "found", "message", "hint"),
    [
        (STREAM + "AT us WITH ('connector' = 'push', 'retentoin' = '1 h')", "'retentoin'", "no option", "'retention'?"),
        (STREAM + "AT us WITH ('connector' = 'push', 'max_ahead' = 'soon')", "'soon'", "'soon'", "or none"),
        (STREAM + "AT us WITH ('connector' = 'push', 'retention' = 'long')", "'long'", "'long'", "'1 hour'"),
        (STREAM + "AT us WITH ('connector' = 'push', 'from' = 'last')", "'last'", "'from' is", "earliest or latest"),
        (STREAM + "WITH ('connector' = 'push', 'retention_bytes' = '-1') AT us AT eu", "'-1'", "retention_bytes", ""),
        (STREAM + "WITH ('format' = 'csv') AT us WITH ('connector' = 'push')", "'format'", "no option", ""),
        (STREAM + "AT us WITH ('connector' = 'push', 'rows_per_second' = 'inf')", "'inf'", "rows_per_second", "number"),
        (STREAM + "AT us WITH ('connector' = 'files', 'path' = 'x', 'format' = 'csv')", "'x'", "'path' is", "absolute"),
        (STREAM + "AT us WITH ('connector' = 'files', 'path' = '/x')", "us", "'format' is missing", "csv, json"),
        (
            STREAM + "AT us WITH ('connector' = 'files', 'path' = '/x', 'format' = 'json', 'sep' = ';')",
            "'sep'",
            "of no use",
            "belongs to csv",
        ),
        (
            STREAM + "AT us WITH ('connector' = 'generator', 'column.w' = 'sequence')",
            "'column.w'",
            "not there",
            "v, ts",
        ),
        (STREAM + "AT us WITH ('connector' = 'generator', 'column.v' = 'gauss')", "'gauss'", "'column.v' is", "zipf"),
        (
            ARRIVING + "AT us WITH ('connector' = 'anothers')",
            "'anothers'",
            "does not note when rows arrive",
            "'files', 'generator', 'push'; else declare a TIMESTAMP column",
        ),
        (
            ARRIVING + "AT us WITH ('connector' = 'files', 'path' = '/x', 'format' = 'csv', 'mode' = 'replay')",
            "'replay'",
            "no time of arrival",
            "'mode' = 'follow'",
        ),
        (
            ARRIVING + "AT us WITH ('connector' = 'generator', 'column.arrived' = 'sequence')",
            "'column.arrived'",
            "is the event time",
            "leave out",
        ),
        (STREAM + "AT us WITH ('connector' = 'parquet')", "'parquet'", "no stream has", "files, generator, push"),
        ("CREATE TABLE t (a INT) AT us WITH ('connector' = 'push')", "'push'", "no table has", "files, generator"),
        ("CREATE TABLE t (a INT) AT us WITH ('connector' = 'generator')", "us", "'rows' is missing", "at least 1"),
        (SINK + "WITH ('connector' = 'parqet', 'path' = '/out')", "'parqet'", "no sink has", "did you mean 'parquet'?"),
        (SINK + "WITH ('connector' = 'parquet')", "us", "option 'path' is missing", "absolute path"),
        (SINK + "WITH ('connector' = 'parquet', 'path' = 'out')", "'out'", "'path' is", "absolute path"),
        (SINK + "WITH ('connector' = 'parquet', 'path' = '/a\0')", "'/a\0'", "'path' is", "absolute path"),
        (SINK + f"WITH ({PARQUET}, 'rol_interval' = '1 s')", "'rol_interval'", "no option", "'roll_interval'?"),
        (SINK + f"WITH ({PARQUET}, 'roll_interval' = '0 s')", "'0 s'", "roll_interval", "above 0"),
        (SINK + f"WITH ({PARQUET}, 'compression' = 'lz4')", "'lz4'", "compression", "zstd, snappy"),
        (SINK + f"WITH ({PARQUET}, 'partition_by' = 'dya')", "'dya'", "none of its columns", "did you mean 'day'?"),
        (SINK + f"WITH ({PARQUET}, 'partition_by' = 'x')", "'x'", "which is DOUBLE", "whole numbers"),
        (
            f"CREATE SINK s (a INT) AT us WITH ({PARQUET}, 'partition_by' = 'a')",
            "'a'",
            "by all its columns",
            "leave one out",
        ),
    ],
)
def test_what_is_wrong_has_its_place(sql: str, found: str, message: str, hint: str) -> None:
    with pytest.raises(InvalidDefinitionError) as caught:
        parse_script(sql)
    error = caught.value
    place = sql.index("us ") if found == "us" else sql.rindex(found)
    assert (error.found, error.position) == (found, Position(1, place + 1))
    assert message in error.message
    assert hint in (error.hint or "")


def test_a_connector_without_a_declaration_is_left_to_its_sites() -> None:
    check_binding(Relation("t", RelationKind.TABLE, (), ()), {"connector": "anothers", "nothing": "known"})


def test_a_sink_without_columns_can_be_partitioned_by_any() -> None:
    options = {"connector": "parquet", "path": "/x", "partition_by": "b"}
    check_binding(Relation("k", RelationKind.SINK, (), ()), options)
    columns = (Column("a", "INT"), Column("c", "INT"))
    with pytest.raises(OptionError, match="partitioned by b"):
        check_binding(Relation("k", RelationKind.SINK, columns, ()), options)
