from __future__ import annotations

import pytest

from site_agent.base.errors import ConnectorError
from site_agent.connectors.generator.columns import ColumnSpec, parse_spec, value_sql
from site_agent.engine import Field


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
    assert parse_spec(text) == expected


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
        parse_spec(text)


def test_texts_are_quoted_for_sql() -> None:
    sql = value_sql(Field("c", "STRING"), parse_spec(r"constant('a''b\c')"), seed=1)
    assert sql == r"CAST('a\'b\\c' AS STRING)"


def test_numbers_in_text_columns_carry_the_columns_name() -> None:
    assert value_sql(Field("user", "STRING"), parse_spec("sequence"), seed=1) == "concat('user-', id)"


def test_seed_and_column_decide_a_value() -> None:
    spec = parse_spec("uniform(1, 6)")
    found = {value_sql(Field(name, "INT"), spec, seed=seed) for name in ("a", "b") for seed in (1, 2)}
    assert len(found) == 4
    assert "CAST((1L + pmod(xxhash64(1L, 'a', id), 6L)) AS INT)" in found


def test_a_type_without_a_default_says_what_is_possible() -> None:
    with pytest.raises(ConnectorError) as caught:
        value_sql(Field("tags", "ARRAY<STRING>"), None, seed=1)
    assert caught.value.message == "the generator makes no values of type ARRAY<STRING> for column tags"
    assert "column.tags" in caught.value.hint


@pytest.mark.parametrize(
    ("kind", "high"), [("DECIMAL(4,2)", "99.0"), ("DECIMAL(10,2)", "100.0"), ("DECIMAL(1)", "9.0")]
)
def test_default_decimals_fit_their_digits(kind: str, high: str) -> None:
    assert f"* {high}D AS {kind})" in value_sql(Field("d", kind), None, seed=1)
