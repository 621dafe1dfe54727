"""Queries of equal fingerprints give equal results, and the same query in other words has the same fingerprint.

DuckDB runs both queries over the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import duckdb
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.sharing.forms import Form
from planner.sharing.vertices import VertexKind
from tests.unit.planner.build import draft_of
from tests.unit.planner.engine import run_draft
from tests.unit.planner.sharing.build import CATALOG, vertices
from tests.unit.planner.sharing.names import vid
from tests.unit.planner.test_semantics import streams

Words = tuple[str, ...]
"""One thing in several words."""

KEYS: tuple[Words, ...] = (
    ("k",),
    ("w", "(w)", "CAST(w AS STRING)"),
    ("site",),
    ("k + v", "v + k"),
    ("k - v",),
    ("upper(w)", "UPPER((w))"),
    ("CASE WHEN k > 2 THEN 'many' ELSE w END", "CASE WHEN 2 < k THEN 'many' ELSE (w) END"),
)
AGGREGATES: tuple[Words, ...] = (
    ("count(*)", "count(1)", "COUNT(*)"),
    ("count(v)",),
    ("count(DISTINCT v)", "count(DISTINCT (v))"),
    ("sum(v)", "sum(CAST(v AS INT))"),
    ("avg(v)", "mean(v)"),
    ("max(d)",),
    ("min(k)", "min((k))"),
    ("sum(v * k)", "sum(k * v)"),
    ("sum(v) FILTER (WHERE d > 0.5)", "sum(v) FILTER (WHERE 0.5 < d AND TRUE)"),
    ("sum(v) FILTER (WHERE d >= 0.5)",),
)
FILTERS: tuple[Words, ...] = (
    ("v > 3", "3 < v", "NOT v <= 1 + 2", "(v) > CAST(3 AS INT)"),
    ("v >= 3", "NOT v < 3"),
    ("v <> 3", "3 != v", "NOT v = 3"),
    ("w = 'a'", "'a' = w"),
    ("w = 'A'",),
    ("v IN (1, 3)", "v IN (3, 1, 3)"),
    ("v NOT IN (1, 3)", "NOT (v IN (3, 1))"),
    ("k BETWEEN 1 AND 3", "k >= 1 AND k <= 3", "3 >= k AND NOT k < 1"),
    ("v = k", "k = v"),
    ("v IS NULL",),
    ("v IS NOT NULL", "NOT v IS NULL"),
    ("v = v",),
    ("d > 0.5 OR w = 'b'", "'b' = w OR 0.5 < d"),
    ("site <> 'eu'", "site IN ('us', 'ap')"),
)
HAVINGS: tuple[Words, ...] = (("count(*) > 1", "1 < count(*)"), ("count(*) >= 1",), ("sum(v) > 5", "NOT sum(v) <= 5"))
WINDOWS: tuple[Words, ...] = (
    ("'10 seconds'", "INTERVAL 10 SECONDS", "'10 seconds', '10 seconds'"),
    ("'60 seconds'", "'1 minute'", "INTERVAL '1' MINUTE"),
    ("'10 seconds', '5 seconds'",),
)


@dataclass(frozen=True)
class Meaning:
    """A query by what it says, not by its words."""

    keys: tuple[Words, ...]
    aggregates: tuple[Words, ...]
    filters: tuple[Words, ...]
    window: Words
    having: tuple[Words, ...]
    top: tuple[str, int] | None


def any_of(words: tuple[Words, ...], least: int, most: int) -> st.SearchStrategy[tuple[Words, ...]]:
    return st.lists(st.sampled_from(words), min_size=least, max_size=most, unique=True).map(tuple)


meanings = st.builds(
    Meaning,
    keys=any_of(KEYS, 0, 2),
    aggregates=any_of(AGGREGATES, 1, 3),
    filters=any_of(FILTERS, 0, 2),
    window=st.sampled_from(WINDOWS),
    having=any_of(HAVINGS, 0, 1),
    top=st.none() | st.tuples(st.sampled_from(["rank", "dense_rank"]), st.integers(1, 2)),
)


@st.composite
def in_words(draw: st.DrawFn, meaning: Meaning) -> str:
    """One of the ways to say it."""

    def say(words: Words) -> str:
        return draw(st.sampled_from(words))

    def shuffled(parts: list[str]) -> list[str]:
        return draw(st.permutations(parts))

    alias = draw(st.sampled_from(["a", "b"]))
    first = say(meaning.aggregates[0])
    keys = {index: say(words) for index, words in enumerate(meaning.keys)}
    items = [f"{key} AS {alias}k{index}" for index, key in keys.items()]
    items += [f"{say(words)} AS {alias}{index}" for index, words in enumerate(meaning.aggregates)]
    where = " AND ".join(f"({f})" for f in shuffled([say(f) for f in meaning.filters])) or "TRUE"
    groups = shuffled([f"window(ts, {say(meaning.window)})", *keys.values()])
    sql = f"SELECT window.start AS {alias}s, {', '.join(shuffled(items))} FROM s AS {alias} WHERE {where} "
    sql += f"GROUP BY {', '.join(groups)}"
    if meaning.having:
        sql += " HAVING " + " AND ".join(say(part) for part in meaning.having)
    if meaning.top is not None:
        sql += f" QUALIFY {meaning.top[0]}() OVER (PARTITION BY window ORDER BY {first}) <= {meaning.top[1]}"
    return sql


def fingerprint_of(sql: str) -> tuple[str, Form]:
    found = vertices(sql)
    results = [v.fingerprint for v in found.values() if v.kind is VertexKind.RESULTS]
    form = found[vid("m1")].form
    assert form is not None
    return results[0], form


def results(db: duckdb.DuckDBPyConnection, sql: str, form: Form, stream: dict[str, Any]) -> list[list[str]]:
    """Rows with their columns in the order of what they are."""
    order = sorted(range(len(form.columns)), key=lambda index: form.columns[index][1].label)
    rows = run_draft(db, draft_of(sql, CATALOG), {"s": stream})
    return sorted([repr(sorted(row[i]) if isinstance(row[i], list) else row[i]) for i in order] for row in rows)


@settings(max_examples=40, deadline=None)
@given(data=st.data(), meaning=meanings)
def test_other_words_have_the_same_fingerprint(data: st.DataObject, meaning: Meaning) -> None:
    first, second = data.draw(in_words(meaning)), data.draw(in_words(meaning))
    assert fingerprint_of(first)[0] == fingerprint_of(second)[0]


@st.composite
def near(draw: st.DrawFn, meaning: Meaning) -> Meaning:
    """The same or nearly the same."""
    other = draw(meanings)
    part = draw(st.sampled_from(["keys", "aggregates", "filters", "window", "having", "top", "nothing"]))
    return Meaning(**{**meaning.__dict__, **({part: getattr(other, part)} if part != "nothing" else {})})


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), meaning=meanings)
def test_equal_fingerprints_give_equal_results(
    db: duckdb.DuckDBPyConnection, data: st.DataObject, meaning: Meaning
) -> None:
    first = data.draw(in_words(meaning))
    second = data.draw(in_words(data.draw(near(meaning))))
    (one, form), (two, other) = fingerprint_of(first), fingerprint_of(second)
    if one == two:
        stream = data.draw(streams)
        assert results(db, first, form, stream) == results(db, second, other, stream)
