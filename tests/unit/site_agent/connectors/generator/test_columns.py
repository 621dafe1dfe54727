from __future__ import annotations

import pytest

from planner.relations.connectors.generator import parse_column
from site_agent.base.errors import ConnectorError
from site_agent.connectors.generator.columns import value_sql
from site_agent.engine import Field


def test_texts_are_quoted_for_sql() -> None:
    sql = value_sql(Field("c", "STRING"), parse_column(r"constant('a''b\c')"), seed=1)
    assert sql == r"CAST('a\'b\\c' AS STRING)"


def test_numbers_in_text_columns_carry_the_columns_name() -> None:
    assert value_sql(Field("user", "STRING"), parse_column("sequence"), seed=1) == "concat('user-', id)"


def test_seed_and_column_decide_a_value() -> None:
    spec = parse_column("uniform(1, 6)")
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
