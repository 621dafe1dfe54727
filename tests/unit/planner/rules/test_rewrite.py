from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from planner.bind.compose import bind_statement
from planner.bind.gathered import Gathered
from planner.bind.selects import StreamSelect, TableSelect
from planner.bind.tablequery import bind_batch
from planner.relations.catalog import Relation
from planner.rules.conditions import push_conditions
from planner.rules.pruning import prune_sites
from planner.rules.rewrite import RULES, rewritten, rewritten_tables
from planner.rules.spread import spread_join
from planner.sql.dialect import render
from planner.values.errors import PlannerError
from tests.unit.planner.build import CATALOG, select_of

JOINED = (
    "SELECT c.ms FROM clicks c JOIN visits v ON c.page = v.page AND v.page > 'a' AND window(c.ts, '10 seconds') = "
    "window(v.ts, '10 seconds') JOIN pages p ON p.page = c.page "
    "WHERE c.site <> 'ap' AND p.topic = 'x' AND c.ms > length(v.page)"
)
TABLES = (
    "SELECT p.topic FROM pages p JOIN (SELECT page, count(*) AS n FROM pages GROUP BY page) AS d ON p.page = d.page"
)


def stream_select(sql: str) -> StreamSelect:
    query = select_of(sql)
    (select,) = bind_statement(query.tree, query.source, Gathered(CATALOG, {}))
    return select


def table_select(sql: str) -> TableSelect:
    query = select_of(sql)
    rows = bind_batch(query.tree, query.source, Gathered(CATALOG, {}))
    assert isinstance(rows, TableSelect)
    return rows


def words(select: StreamSelect | TableSelect) -> list[str]:
    return [render(conjunct) for conjunct in select.where]


def test_sites_that_cannot_match_are_pruned_with_the_conditions_that_say_so() -> None:
    select = prune_sites(stream_select("SELECT ms FROM clicks WHERE site IN ('us', 'eu') AND ms > 1"))
    assert select.sites == ("eu", "us")
    assert words(select) == ["input.ms > 1"]


def test_all_sites_of_a_table_are_read_without_a_condition() -> None:
    relation: Relation = CATALOG.relations["pages"]
    assert prune_sites(table_select("SELECT topic FROM pages")).sites == tuple(sorted(relation.sites))


def test_a_table_is_filtered_before_it_is_joined() -> None:
    select = push_conditions(
        stream_select("SELECT ms FROM clicks c JOIN pages p ON c.page = p.page AND p.topic > 'a' WHERE p.topic < 'x'")
    )
    (join,) = select.joins
    assert [render(c) for c in join.on] == ["input.page = t1.page"]
    assert [render(c) for c in join.where] == ["t1.topic < 'x'", "t1.topic > 'a'"]
    assert words(select) == []


def test_where_on_the_table_of_a_left_join_stays_behind_it() -> None:
    select = push_conditions(
        stream_select("SELECT ms FROM clicks c LEFT JOIN pages p ON c.page = p.page WHERE p.topic IS NULL")
    )
    assert select.joins[0].where == ()
    assert words(select) == ["t1.topic IS NULL"]


def test_each_stream_of_a_join_gets_a_select_of_its_own() -> None:
    select = spread_join(stream_select(JOINED))
    clicks, visits = select.sources
    assert [join.member.alias for join in clicks.joins] == ["p"]
    assert words(clicks) == ["input.site <> 'ap'", "t2.topic = 'x'"]
    assert words(visits) == ["input.page > 'a'"]
    assert [join.member.alias for join in select.joins] == ["v"]
    assert words(select) == ["input.ms > length(t1.page)"]


def test_rules_reach_the_sources_of_a_join() -> None:
    clicks, visits = rewritten(stream_select(JOINED)).sources
    assert (clicks.sites, visits.sites) == (("eu", "us"), ("us",))
    assert words(clicks) == []
    assert [render(conjunct) for conjunct in clicks.joins[0].where] == ["t2.topic = 'x'"]


def test_rules_reach_queries_over_queries() -> None:
    rows = rewritten_tables(table_select(TABLES))
    assert isinstance(rows, TableSelect)
    (join,) = rows.joins
    assert isinstance(join.rows, TableSelect)
    assert join.rows.sites == rows.sites != ()
    below = rewritten_tables(table_select("SELECT n FROM (SELECT count(*) AS n FROM pages) AS d WHERE n > 1"))
    assert isinstance(below, TableSelect)
    assert below.sites == ()
    assert isinstance(below.below, TableSelect)
    assert below.below.sites == rows.sites


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT ms FROM clicks",
        "SELECT ms FROM clicks c JOIN pages p USING (page) WHERE site = 'us' AND p.topic = 'x'",
        "SELECT page, count(*) FROM clicks GROUP BY page, window(ts, '1 day')",
    ],
)
@pytest.mark.parametrize("rule", RULES)
def test_a_rule_has_nothing_left_to_do_behind_itself(rule: Callable[[StreamSelect], StreamSelect], sql: str) -> None:
    once = rule(stream_select(sql))
    assert replace(rule(once), sites=once.sites) == once


def test_no_site_left_is_said_with_its_place() -> None:
    with pytest.raises(PlannerError, match="no site of clicks can match") as caught:
        rewritten(stream_select("SELECT ms FROM clicks WHERE site = 'nowhere'"))
    assert caught.value.position is not None
    assert caught.value.position.column == 29
