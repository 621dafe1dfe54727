"""Canonical forms mean what was written, by DuckDB as the judge; equal labels are therefore equal meanings."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest
import sqlglot
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.sharing.canonical import Canonical, bracketed, label
from planner.sharing.forms import named_column
from planner.sql.dialect import exp, parse_template, render
from tests.unit.planner.engine import connect

TYPES = {("g", "v"): "INT", ("g", "k"): "INT", ("g", "w"): "STRING", ("g", "b"): "BOOLEAN", ("g", "d"): "DOUBLE"}
TERMS = Canonical(lambda view, name: named_column("g", name), frozenset(("g",)), TYPES)


@pytest.fixture(scope="module")
def db() -> Iterator[duckdb.DuckDBPyConnection]:
    """All combinations of a few values, NULL and NaN among them."""
    with connect() as connection:
        connection.execute(
            """
            CREATE TABLE g AS SELECT v, k, w, b, d
            FROM (VALUES (NULL::INT), (-1), (0), (1), (3)) AS v(v), (VALUES (NULL::INT), (0), (1), (2)) AS k(k),
                 (VALUES (NULL::VARCHAR), ('a'), ('A'), ('')) AS w(w),
                 (VALUES (NULL::BOOLEAN), (TRUE), (FALSE)) AS b(b),
                 (VALUES (NULL::DOUBLE), ('NaN'::DOUBLE), (0.25), (1.0)) AS d(d)
            """
        )
        yield connection


def canonical(sql: str) -> exp.Expr:
    tree = parse_template(f"SELECT {sql} FROM g")
    assert isinstance(tree, exp.Select)
    return TERMS.of(tree.expressions[0])


def in_brackets(parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.tuples(parts, st.booleans()).map(lambda pair: f"({pair[0]})" if pair[1] else pair[0])


def binary(parts: st.SearchStrategy[str], operators: list[str]) -> st.SearchStrategy[str]:
    return st.tuples(parts, st.sampled_from(operators), parts).map(lambda t: f"({t[0]}) {t[1]} ({t[2]})")


integers = st.recursive(
    st.sampled_from(["v", "k", "g.v", "0", "1", "2", "-3", "CAST(v AS INT)", "V"]),
    lambda inner: in_brackets(
        binary(inner, ["+", "-", "*"])
        | inner.map(lambda e: f"-({e})")
        | inner.map(lambda e: f"CAST({e} AS INT)")
        | st.tuples(inner, inner).map(lambda t: f"CASE WHEN {t[0]} > 0 THEN {t[1]} ELSE k END")
        | st.tuples(inner, inner).map(lambda t: f"coalesce({t[0]}, {t[1]})")
    ),
    max_leaves=4,
)
texts = st.sampled_from(["w", "'a'", "upper(w)", "w || 'a'", "'a' || 'b'", "CAST(w AS STRING)", "CAST(v AS STRING)"])
floats = st.sampled_from(["d", "d + 0.5", "0.5 + d", "0.5", "d * 2"])
COMPARISONS = ["=", "<>", "!=", "<", "<=", ">", ">=", "<=>"]
atoms = (
    binary(integers, COMPARISONS)
    | binary(texts, COMPARISONS)
    | binary(floats, COMPARISONS)
    | st.sampled_from(["b", "TRUE", "FALSE", "v IS NULL", "NOT w IS NULL", "v IS NOT NULL", "w LIKE 'a%'", "v = v"])
    | st.tuples(integers, integers, integers).map(lambda t: f"({t[0]}) BETWEEN ({t[1]}) AND ({t[2]})")
    | st.tuples(integers, integers, integers).map(lambda t: f"({t[0]}) NOT BETWEEN ({t[1]}) AND ({t[2]})")
    | st.tuples(integers, st.lists(st.sampled_from(["0", "1", "3", "NULL"]), min_size=1, max_size=4)).map(
        lambda t: f"({t[0]}) IN ({', '.join(t[1])})"
    )
    | st.just("w NOT LIKE 'a%'")
)
conditions = st.recursive(
    atoms, lambda inner: binary(inner, ["AND", "OR"]) | inner.map(lambda e: f"NOT ({e})"), max_leaves=4
)


def values(db: duckdb.DuckDBPyConnection, *expressions: str) -> list[list[object]]:
    """What the expressions are for all rows, as texts, so that NaN equals NaN."""
    items = [sqlglot.transpile(f"SELECT {e} FROM g", read="spark", write="duckdb")[0] for e in expressions]
    rows = (f"(SELECT list(x::VARCHAR) FROM ({item}) AS q(x))" for item in items)
    found = db.execute(f"SELECT {', '.join(rows)}").fetchone()
    assert found is not None
    return list(found)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sql=conditions | integers | texts | floats)
def test_the_canonical_form_means_the_same(db: duckdb.DuckDBPyConnection, sql: str) -> None:
    first, second = values(db, sql, render(bracketed(canonical(sql))))
    assert first == second


@settings(max_examples=60, deadline=None)
@given(sql=conditions | integers)
def test_the_canonical_form_is_its_own(sql: str) -> None:
    once = canonical(sql)
    assert label(canonical(render(bracketed(once)))) == label(once)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pair=st.tuples(conditions, conditions) | st.tuples(integers, integers))
def test_equal_labels_are_equal_values(db: duckdb.DuckDBPyConnection, pair: tuple[str, str]) -> None:
    if label(canonical(pair[0])) == label(canonical(pair[1])):
        first, second = values(db, *pair)
        assert first == second


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("b AND TRUE", "b"),
        ("NOT NOT b", "b"),
        ("b OR (v = 1 OR b)", "1 = v OR b"),
        ("filter(array(v), x -> x > 1 + 1)", "filter(array(v), x -> 2 < x)"),
        ("named_struct('a', v, 'b', k).b", "k"),
        ("mean(v)", "avg(v)"),
        ("sum(v) FILTER (WHERE b AND TRUE)", "SUM((v)) FILTER (WHERE b)"),
    ],
)
def test_equal(first: str, second: str) -> None:
    assert label(canonical(first)) == label(canonical(second))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        # AND casts a text, the text alone does not.
        ("w AND TRUE", "w"),
        ("NOT NOT w", "w"),
        # One may fail, the other has a value.
        ("FALSE AND v / 0 > 1", "FALSE"),
        ("v + k + 1", "v + (k + 1)"),
        ("1.5 + 1", "2.5"),
        ("7 % 2", "1"),
        ("count(v)", "count(*)"),
        ("count(NULL)", "count(*)"),
        ("'ab'", "concat('a', 'b')"),
        # An interval by itself has a type.
        ("INTERVAL 1 MINUTE", "INTERVAL 60 SECONDS"),
        ("filter(array(v), x -> x > 1)", "filter(array(v), x -> x > v)"),
        ("geo.a", "geo.b"),
        ("'1'", "1"),
        ("v", "`'v'`"),
    ],
)
def test_not_equal(first: str, second: str) -> None:
    assert label(canonical(first)) != label(canonical(second))
