"""Joins with the newest version of another stream give what DuckDB's ASOF JOIN gives over all rows at once."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from planner.text.logical import logical_lines
from planner.text.merges import merge_text
from tests.seeds import several
from tests.unit.planner.build import assert_refused, draft_of
from tests.unit.planner.engine import fetch, run_draft
from tests.unit.planner.test_interval_joins import CATALOG, data_of, load_whole

EACH = settings(max_examples=several(20, 100), suppress_health_check=[HealthCheck.function_scoped_fixture])
ASOF = "ASOF JOIN b MATCH_CONDITION (a.ts >= b.seen) ON a.k = b.k"


def apart(data: dict[str, Any]) -> dict[str, Any]:
    """The same with one version of each instant: which of several counts is for Selat to say."""
    seen: set[object] = set()
    versions = {
        site: [[row for row in epoch if not (row["seen"] in seen or seen.add(row["seen"]))] for epoch in epochs]  # type: ignore[func-returns-value]
        for site, epochs in data["b"].items()
    }
    return {**data, "b": versions}


@EACH
@given(
    data=data_of.map(apart),
    left=st.booleans(),
    form=st.sampled_from(["(a.ts >= b.seen)", "(b.seen <= a.ts)", "(a.ts > b.seen)", "system time"]),
    more=st.sampled_from(["", " AND b.x > 0", " AND a.v < 2"]),
    where=st.sampled_from(["", " WHERE a.v > b.x", " WHERE b.x IS NULL"]),
    parts=st.sampled_from([1, 3]),
)
def test_each_row_has_the_newest_version(
    db: duckdb.DuckDBPyConnection, data: dict[str, Any], left: bool, form: str, more: str, where: str, parts: int
) -> None:
    load_whole(db, data)
    kind, compared = "LEFT " if left else "", ">" if form == "(a.ts > b.seen)" else ">="
    joined = f"{kind}ASOF JOIN b MATCH_CONDITION {form} ON"
    if form == "system time":
        joined = f"{kind}JOIN b FOR SYSTEM_TIME AS OF a.ts ON"
    text = f"SELECT a.ts, a.v, b.seen, b.x FROM a {joined} a.k = b.k{more}{where}"
    # DuckDB takes equalities and the order alone: conditions on one side go before the join, as ON has them.
    versions = "(SELECT * FROM b WHERE x > 0)" if more == " AND b.x > 0" else "b"
    found = f"SELECT a.*, c.seen, c.x FROM a ASOF {kind}JOIN {versions} AS c ON a.k = c.k AND a.ts {compared} c.seen"
    if more == " AND a.v < 2":
        found = f"SELECT a.*, c.seen, c.x FROM (SELECT * FROM a WHERE v < 2) AS a ASOF {kind}JOIN b AS c "
        found += f"ON a.k = c.k AND a.ts {compared} c.seen"
        if left:
            found += " UNION ALL BY NAME SELECT *, NULL AS seen, NULL AS x FROM a WHERE v < 2 IS NOT TRUE"
    whole = f"SELECT ts, v, seen, x FROM ({found}) AS d{where.replace('a.', 'd.').replace('b.', 'd.')}"
    assert run_draft(db, draft_of(text, CATALOG, parts=parts), data) == fetch(db, whole)


@EACH
@given(data=data_of.map(apart), parts=st.sampled_from([1, 3]))
def test_groups_and_further_joins_behind_it(db: duckdb.DuckDBPyConnection, data: dict[str, Any], parts: int) -> None:
    load_whole(db, data)
    groups = "SELECT {} AS s, b.x, count(*) AS n FROM a {} GROUP BY {}, b.x"
    call, plain = "window(a.ts, '4 seconds')", "ASOF JOIN b ON a.k = b.k AND a.ts >= b.seen"
    draft = draft_of(groups.format(f"{call}.start", ASOF, call), CATALOG, parts=parts)
    assert run_draft(db, draft, data) == fetch(db, groups.format("w(a.ts, 4)", plain, "w(a.ts, 4)"))
    table = "SELECT a.v, b.x, t.name FROM a {} JOIN t ON t.k = b.x"
    draft = draft_of(table.format(ASOF), CATALOG, parts=parts)
    assert run_draft(db, draft, data) == fetch(db, table.format(plain))
    chain = "SELECT {} FROM a {} JOIN a AS c ON c.k = {}.x AND c.ts BETWEEN {}.ts AND {}.ts + INTERVAL '2 seconds'"
    draft = draft_of(chain.format("a.v, b.x, c.v AS y", ASOF, "b", "a", "a"), CATALOG, parts=parts)
    first = f"(SELECT a.ts, a.v, b.x FROM a {plain}) AS d"
    whole = chain.replace("FROM a {}", "FROM {}").format("d.v, d.x, c.v", first, "d", "d", "d")
    assert run_draft(db, draft, data) == fetch(db, whole)


def test_the_plan_says_what_is_joined_and_kept_and_spark_reads_a_plain_join() -> None:
    draft = draft_of(f"SELECT a.v, b.x FROM a LEFT {ASOF} AND a.v > 1 JOIN t ON t.k = a.v", CATALOG)
    assert "IntervalJoin[LEFT b ON" in "\n".join(logical_lines(draft.logical))
    merge = draft.stages[-1]
    assert "LEFT JOIN t1 ON input._c0 = t1._c1 AND input._c2 > 1 AND input._row = t1._row" in merge.sql
    assert merge.merge is not None
    assert merge_text(merge.merge) == (
        "emits each row of input once, when the watermark passes it, with the newest row of t1\n"
        "keeps of t1 the newest row of each key, for ever"
    )
    assert draft.texts[-1].sql == ("SELECT a.v, b.x FROM a LEFT  JOIN b  ON a.k = b.k AND a.v > 1 JOIN t ON t.k = a.v")
    for kind, plain in (
        ("ASOF LEFT", " LEFT JOIN"),
        ("LEFT OUTER ASOF", "LEFT OUTER  JOIN"),
        ("INNER ASOF", "INNER  JOIN"),
        ("ASOF INNER", " INNER JOIN"),
    ):
        text = f"SELECT a.v FROM a {kind} {ASOF.removeprefix('ASOF ')}"
        assert draft_of(text, CATALOG).texts[-1].sql == f"SELECT a.v FROM a {plain} b  ON a.k = b.k"
    text = "SELECT a.v FROM a JOIN b FOR SYSTEM_TIME AS OF a.ts AS c ON a.k = c.k"
    assert draft_of(text, CATALOG).texts[-1].sql == "SELECT a.v FROM a JOIN b  AS c ON a.k = c.k"


def test_no_version_is_left_out_by_what_is_said_of_joined_rows() -> None:
    draft = draft_of(f"SELECT a.v FROM a {ASOF} JOIN t ON t.k = b.x WHERE b.x > 2 AND b.site = 'eu'", CATALOG)
    (versions,) = (stage for stage in draft.stages if "input.seen" in stage.sql)
    assert " WHERE " not in versions.sql
    assert " JOIN " not in versions.sql
    assert draft.stages[-1].sql.endswith("JOIN t2 ON t2.k = t1._c2 WHERE t1._c2 > 2 AND t1._c3 = 'eu'")


REFUSED = (
    ("SELECT a.v FROM a ASOF JOIN b ON a.k = b.k AND a.ts >= b.seen", "ASOF JOIN needs a MATCH_CONDITION"),
    (f"SELECT a.v FROM a {ASOF.replace('JOIN', 'SEMI JOIN')}", "ASOF SEMI JOIN"),
    (f"SELECT a.v FROM a {ASOF.replace('JOIN', 'LEFT ANTI JOIN')}", "ASOF LEFT ANTI JOIN"),
    (f"SELECT a.v FROM a {ASOF.replace('>=', '<=')}", "the next version may never come"),
    (f"SELECT a.v FROM a {ASOF.replace('>=', '<>')}", "unexpected"),
    (f"SELECT a.v FROM a {ASOF.replace('b.seen', 'b.x')}", "must compare with the event time of b"),
    (f"SELECT a.v FROM a {ASOF.replace('a.ts', 'a.until')}", "the version is that of the event time of a stream"),
    (f"SELECT a.v FROM a {ASOF} AND a.v > b.x", "ON of an ASOF JOIN says which columns are equal"),
    (f"SELECT a.v FROM a {ASOF.replace('a.k = b.k', 'b.x > 1')}", "has no equality of columns"),
    ("SELECT a.v FROM a ASOF JOIN t MATCH_CONDITION (a.ts >= t.k) ON a.k = t.k", "whose rows have no versions"),
    (f"SELECT a.v FROM a RIGHT {ASOF}", "RIGHT"),
    (
        "SELECT a.v FROM a FOR SYSTEM_TIME AS OF a.ts JOIN t ON t.k = a.v",
        "a version of the first stream is not possible",
    ),
    (
        "SELECT a.v FROM a RIGHT JOIN b FOR SYSTEM_TIME AS OF a.ts ON a.k = b.k",
        "RIGHT JOIN FOR SYSTEM_TIME is not possible",
    ),
    ("SELECT a.v FROM a JOIN t FOR SYSTEM_TIME AS OF a.ts ON t.k = a.v", "whose rows have no versions"),
    (
        f"SELECT count(*) AS n FROM a {ASOF} GROUP BY window(b.seen, '5 seconds')",
        "how long ago the event time of the window may be",
    ),
)


@pytest.mark.parametrize(("text", "message"), REFUSED)
def test_what_is_refused(text: str, message: str) -> None:
    assert_refused(text, message, CATALOG)
