"""Options of `generator`: how columns are made, rates, and what a change of rate leaves behind."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime
from fractions import Fraction

import pytest

from planner.relations.catalog import Column, Relation, RelationKind
from planner.relations.connectors.generator import (
    GENERATOR,
    ColumnSpec,
    parse_column,
    parse_rate_changes,
)
from planner.relations.options import OptionError

COLUMNS = (Column("v", "INT"), Column("ts", "TIMESTAMP"))
STREAM = Relation("s", RelationKind.STREAM, COLUMNS, (), "ts", created_at=datetime(2026, 1, 1, tzinfo=UTC))
START_US = 1_767_225_600_000_000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("sequence", ColumnSpec("sequence")),
        ("Uniform(1, 6)", ColumnSpec("uniform", ("1", "6"))),
        ("choice(a, 'b, c', 'it''s', d e)", ColumnSpec("choice", ("a", "b, c", "it's", "d e"))),
        ("zipf(100, 1.1)", ColumnSpec("zipf", ("100", "1.1"))),
        ("constant('')", ColumnSpec("constant", ("",))),
    ],
)
def test_specs(text: str, expected: ColumnSpec) -> None:
    assert parse_column(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "sequence(1)",
        "uniform",
        "uniform(1)",
        "uniform(6, 1)",
        "uniform(a, b)",
        "choice()",
        "choice('a)",
        "zipf(0, 1)",
        "zipf(1.5, 1)",
        "zipf(10, 0)",
        "constant(a, b)",
        "uniform(1, 2) and more",
    ],
)
def test_what_is_not_a_spec(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        parse_column(text)


def test_a_text_takes_time_by_its_length() -> None:
    blanks, started_s = " " * 50_000, time.perf_counter()
    for text in (f"choice({blanks}')", f"a{blanks}!", f"choice({chr(39) * 50_001})", f"zipf({'1' * 50_000}"):
        with pytest.raises(ValueError):  # noqa: PT011
            parse_column(text)
    assert time.perf_counter() - started_s < 5


def test_changes_of_the_rate() -> None:
    text = json.dumps([[START_US, 10], [START_US + 1_000_000, 0.1]])
    assert parse_rate_changes(text) == ((START_US, Fraction(10)), (START_US + 1_000_000, Fraction(1, 10)))


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "[1]", "[[1]]", '[["a", 1]]', '[[1, "a"]]', "[[2, 1], [1, 1]]", "[[1, -1]]", "[[1, 1e99]]",
     "[[1, 1e1000000000]]", "[" * 100_000],
)  # fmt: skip
def test_what_are_no_changes_of_the_rate(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        parse_rate_changes(text)


def test_a_column_is_one_of_the_relations_in_any_case() -> None:
    GENERATOR.check_options(STREAM, {"column.V": "sequence", "column.v.null_fraction": "0.5"})
    for name in ("column.w", "column.w.null_fraction", "column.TS"):
        with pytest.raises(OptionError) as caught:
            GENERATOR.check_options(STREAM, {name: "0.5" if name.endswith("fraction") else "sequence"})
        assert (caught.value.option, caught.value.at_name) == (name, True)


def test_a_table_has_an_end() -> None:
    with pytest.raises(OptionError, match="'rows' is missing"):
        GENERATOR.check_options(Relation("t", RelationKind.TABLE, COLUMNS, ()), {})


def test_a_changed_rate_that_comes_with_its_schedule_is_as_it_is_written() -> None:
    changes = {"rows_per_second": "5", "rate_schedule": f"[[{START_US}, 5]]"}
    assert GENERATOR.altered(STREAM, {"seed": "1"}, changes, datetime(2026, 1, 2, tzinfo=UTC)) == {
        "seed": "1",
        **changes,
    }
