"""Queries over queries: what they are merged into, and what is refused, with its place in the user's text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from planner.graph.plan import DraftPlan
from planner.planning import draft_query
from planner.planning.questions import analyses_of_union, analyses_of_views, analysis_of_query, analysis_of_view
from planner.relations.catalog import Catalog
from planner.text.logical import logical_lines
from planner.values.errors import PlannerError, Position
from planner.values.stages import StageKind
from tests.unit.planner.build import CATALOG, catalog_of, columns, draft_of, select_of, with_relation

VIEWS = catalog_of(
    """
    CREATE VIEW slow AS SELECT user_id, page, ms / 1000 AS s, ts, site FROM clicks WHERE ms > 1000;
    CREATE VIEW slower (who, what, secs, at) AS SELECT user_id, page, s, ts FROM slow WHERE s > 5;
    CREATE VIEW counts AS SELECT window(ts, '10 seconds') AS w, page, count(*) AS n FROM clicks GROUP BY 1, 2;
    CREATE VIEW topics AS SELECT page, upper(topic) AS topic FROM pages WHERE weight > 2;
    """,
    CATALOG,
)


def sql_of(draft: DraftPlan, stage: str) -> str:
    return draft.stage(stage).sql


def test_a_view_of_a_view_is_merged_under_the_names_of_each() -> None:
    draft = draft_of("SELECT who, round(secs) AS secs FROM slower AS x WHERE x.what = '/'", VIEWS)
    assert sql_of(draft, "s1") == (
        "SELECT input.user_id AS who, round((input.ms / 1000)) AS secs FROM input "
        "WHERE input.ms > 1000 AND (input.ms / 1000) > 5 AND input.page = '/'"
    )
    assert draft.stage("s1").read_columns == ("user_id", "page", "ms", "ts")


def test_sites_are_pruned_through_views() -> None:
    draft = draft_of("SELECT page FROM slow WHERE site IN ('us', 'eu')", VIEWS)
    assert draft.stage("s1").pinned == ("eu", "us")
    assert "site" not in sql_of(draft, "s1")


def test_conditions_on_a_joined_view_are_applied_where_its_table_is() -> None:
    draft = draft_of("SELECT c.page FROM clicks c JOIN topics t USING (page) WHERE t.topic = 'NEWS'", VIEWS)
    table = draft.stage("t1")
    assert table.sql == "SELECT page FROM input WHERE weight > 2 AND upper(topic) = 'NEWS'"
    assert table.read_columns == ("page", "topic", "weight")
    assert (table.kind, table.relation) == (StageKind.TABLE, "pages")


def test_a_condition_after_a_left_join_stays_behind_it() -> None:
    inner = "SELECT c.page, p.topic AS t FROM clicks c LEFT JOIN pages p USING (page)"
    draft = draft_of(f"SELECT d.t FROM ({inner}) AS d WHERE d.t = 'x'")
    assert "WHERE" not in sql_of(draft, "t1")
    assert "LEFT JOIN t1 ON" in sql_of(draft, "s1")
    assert sql_of(draft, "s1").endswith("WHERE t1.topic = 'x'")


def test_each_branch_of_a_union_is_a_result() -> None:
    draft = draft_of("SELECT page FROM clicks UNION ALL SELECT upper(page) FROM visits WHERE site = 'us'")
    assert draft.result_stages == ("s1", "s2")
    assert [draft.stage(s).pinned for s in draft.result_stages] == [("ap", "eu", "us"), ("us",)]
    assert [c.name for c in draft.columns] == ["page"]


def test_an_aggregate_over_a_union_has_one_merge() -> None:
    inner = "SELECT page, ms, ts FROM clicks UNION ALL SELECT page, 0, ts FROM visits"
    draft = draft_of(
        f"SELECT page, sum(ms) AS m FROM ({inner}) AS u WHERE ms < 9 GROUP BY page, window(ts, '1 minute')"
    )
    merge = draft.stage("m1")
    assert [i.stage for i in merge.inputs] == ["s1", "s2"]
    assert draft.result_stages == ("m1",)
    assert "input.ms AS _c0 FROM input WHERE input.ms < 9" in sql_of(draft, "s1")
    assert "0 AS _c0 FROM input WHERE 0 < 9" in sql_of(draft, "s2")


def test_branches_of_a_union_get_the_unions_types() -> None:
    inner = "SELECT ms AS n, ts FROM clicks UNION ALL SELECT length(page) + 1.5, ts FROM visits"
    sql = f"SELECT sum(n) AS m FROM ({inner}) AS u GROUP BY window(ts, '1 minute')"
    asked = analyses_of_union(draft_of(sql), {})
    assert sorted(asked) == ["u1", "u1.0", "u1.1"]
    assert asked["u1"].statement == (
        "SELECT input.ms AS n, input.ts AS ts FROM clicks AS input UNION ALL "
        "SELECT length(input.page) + 1.5 AS n, input.ts AS ts FROM visits AS input"
    )
    types = {
        "u1": columns("n DECIMAL(12,1), ts TIMESTAMP"),
        "u1.0": columns("n INT, ts TIMESTAMP"),
        "u1.1": columns("n DECIMAL(12,1), ts TIMESTAMP"),
    }
    draft = draft_query(select_of(sql), CATALOG, types)
    assert "CAST(input.ms AS DECIMAL(12,1)) AS _c0" in sql_of(draft, "s1")
    assert "CAST" not in sql_of(draft, "s2")
    assert analyses_of_union(draft, types) == {}


def test_a_select_over_an_aggregate_is_part_of_the_merge() -> None:
    draft = draft_of("SELECT w.start AS s, max(n) AS n FROM counts WHERE n > 2 GROUP BY w", VIEWS)
    assert sql_of(draft, "m1").startswith("SELECT r1.w.start AS s, max(r1.n) AS n FROM (SELECT named_struct(")
    assert sql_of(draft, "m1").endswith(") AS r1 WHERE r1.n > 2 GROUP BY r1.w")


def test_spark_checks_the_definitions_of_views_first() -> None:
    draft = draft_of("SELECT who, site FROM (SELECT x.*, who AS site FROM slower AS x) AS c", VIEWS)
    slow, slower = analyses_of_views(draft)
    assert (slow.view, slower.view) == ("slow", "slower")
    first = analysis_of_view(draft, slow, VIEWS, {})
    assert list(first.views) == ["clicks"]
    assert first.views["clicks"][-1].name == "site"
    known = {"slow": columns("user_id BIGINT, page STRING, s DOUBLE, ts TIMESTAMP, site STRING")}
    assert analysis_of_view(draft, slower, VIEWS, known).views == {"slow": known["slow"]}
    found = columns("who BIGINT, what STRING, secs DOUBLE, at TIMESTAMP")
    query = analysis_of_query(draft, VIEWS, {"slower": found})
    assert query.views == {"slower": found}
    # `site` of the stream is named within, so that each * is written out.
    assert "SELECT x.who, x.what, x.secs, x.at, who AS site FROM" in query.statement


@pytest.mark.parametrize(
    ("sql", "code", "line", "column"),
    [
        ("SELECT a FROM (SELECT pge AS a FROM clicks) AS d", "UNKNOWN_COLUMN", 1, 23),
        ("SELECT b FROM (SELECT page AS a FROM clicks) AS d", "UNKNOWN_COLUMN", 1, 8),
        ("SELECT site FROM (SELECT page FROM clicks) AS d", "UNKNOWN_COLUMN", 1, 8),
        ("SELECT d.x FROM (SELECT page FROM clicks) AS d", "UNKNOWN_COLUMN", 1, 8),
        ("WITH d AS (SELECT page FROM clikcs) SELECT page FROM d", "UNKNOWN_RELATION", 1, 29),
        ("WITH d AS (SELECT page FROM clikcs)\nSELECT page FROM clicks", "UNKNOWN_RELATION", 1, 29),
        ("WITH d(a, b) AS (SELECT page FROM clicks) SELECT a FROM d", "INVALID_DEFINITION", 1, 57),
        ("SELECT a FROM (SELECT page FROM clicks) AS d(a, a)", "INVALID_DEFINITION", 1, 23),
        ("SELECT x FROM clicks AS q(x)", "UNSUPPORTED_SQL", 1, 15),
        ("SELECT page FROM clicks UNION ALL\n SELECT page, ms FROM clicks", "INVALID_DEFINITION", 2, 2),
        ("SELECT count(*) FROM (SELECT page FROM clicks) AS d GROUP BY window(ts, '1 s')", "UNSUPPORTED_SQL", 1, 69),
        ("SELECT count(*) AS n FROM (SELECT ts + INTERVAL 1 DAY AS ts FROM clicks) AS d GROUP BY window(ts, '1 s')",
         "UNSUPPORTED_SQL", 1, 95),
        ("SELECT max(n) AS m FROM counts", "UNSUPPORTED_SQL", 1, 8),
        ("SELECT page, max(n) AS m FROM counts GROUP BY page", "UNSUPPORTED_SQL", 1, 47),
        ("SELECT page, n FROM counts GROUP BY w, page", "INVALID_EXPRESSION", 1, 14),
        ("SELECT sum(n) AS m FROM counts GROUP BY window(w.start, '15 seconds')", "UNSUPPORTED_SQL", 1, 57),
        ("SELECT page FROM counts QUALIFY rank() OVER (PARTITION BY page ORDER BY n) < 3", "UNSUPPORTED_SQL", 1, 33),
        ("SELECT c.page FROM counts c JOIN pages p ON c.page = p.page", "UNSUPPORTED_SQL", 1, 34),
        ("SELECT c.page FROM clicks c JOIN counts d ON c.page = d.page", "UNSUPPORTED_SQL", 1, 34),
        ("SELECT c.page FROM clicks c JOIN slow d ON c.page = d.page", "UNSUPPORTED_SQL", 1, 44),
        ("SELECT c.page FROM clicks c JOIN (SELECT page FROM visits) d ON c.page = d.page", "UNSUPPORTED_SQL", 1, 65),
        ("SELECT n FROM (SELECT n FROM counts UNION ALL SELECT n + 1 FROM counts) AS d", "UNSUPPORTED_SQL", 1, 23),
        ("SELECT DISTINCT page FROM slow", "UNSUPPORTED_SQL", 1, 17),
    ],
)  # fmt: skip
def test_refusals_have_their_place(sql: str, code: str, line: int, column: int) -> None:
    with pytest.raises(PlannerError) as caught:
        draft_of(sql, VIEWS)
    assert (caught.value.code, caught.value.position) == (code, Position(line, column)), caught.value.message
    assert caught.value.hint


def test_names_that_multiply_are_refused_in_time() -> None:
    doubled = ["d0 AS (SELECT ms AS x FROM clicks)"]
    doubled += [f"d{n} AS (SELECT x + x AS x FROM d{n - 1})" for n in range(1, 60)]
    with pytest.raises(PlannerError, match="too large") as caught:
        draft_of(f"WITH {', '.join(doubled)} SELECT x FROM d59")
    assert caught.value.code == "UNSUPPORTED_SQL"
    unions = ["d0 AS (SELECT ms FROM clicks)"]
    unions += [f"d{n} AS (SELECT ms FROM d{n - 1} UNION ALL SELECT ms FROM d{n - 1})" for n in range(1, 60)]
    with pytest.raises(PlannerError, match="more than 64 queries"):
        draft_of(f"WITH {', '.join(unions)} SELECT ms FROM d59")
    layers = [f"d{n} AS (SELECT w, n FROM {f'd{n - 1}' if n else 'counts'})" for n in range(30)]
    with pytest.raises(PlannerError, match="more than 20 queries"):
        draft_of(f"WITH {', '.join(layers)} SELECT n FROM d29", VIEWS)


def test_further_branches_of_a_union_need_no_names_of_their_own() -> None:
    first = "SELECT page AS a, ms AS b FROM clicks"
    draft = draft_of(f"{first} UNION ALL SELECT page, 0 FROM visits UNION ALL SELECT 'x', 'x' FROM visits")
    assert [c.name for c in draft.columns] == ["a", "b"]
    assert sql_of(draft, "s3") == "SELECT 'x' AS a, 'x' AS b FROM input"


def test_errors_within_a_view_are_told_where_it_is_named() -> None:
    broken = catalog_of("CREATE VIEW v AS SELECT page FROM slow", VIEWS).relations
    catalog = Catalog({name: relation for name, relation in broken.items() if name != "slow"})
    with pytest.raises(PlannerError) as caught:
        draft_of("SELECT page\nFROM v", catalog)
    assert caught.value.position == Position(2, 6)
    assert caught.value.message == "in view v: there is no stream, table or view slow"


def test_views_that_use_one_another_are_refused() -> None:
    catalog = catalog_of("CREATE VIEW a AS SELECT page FROM clicks; CREATE VIEW b AS SELECT page FROM a;", CATALOG)
    round_ = with_relation(catalog, replace(catalog.relations["a"], definition="SELECT page FROM b"))
    with pytest.raises(PlannerError) as caught:
        draft_of("SELECT page FROM a", round_)
    assert caught.value.code == "INVALID_DEFINITION"
    assert "a is defined by itself" in caught.value.message


def test_explain_says_what_became_of_derived_tables() -> None:
    draft = draft_of("SELECT page FROM slow UNION ALL SELECT page FROM counts WHERE n > 1", VIEWS)
    lines = logical_lines(draft.logical, draft.notes)
    assert lines[0] == "UnionAll"
    assert lines[1] == "  Project[page]"
    assert "(slow: merged into the SELECT over it)" in lines
    assert "(counts: the SELECT over it is computed by the merge, window by window)" in lines
