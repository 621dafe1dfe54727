"""Views: declared, replaced, used, dropped; with a stand-in for Spark."""

from __future__ import annotations

from dataclasses import replace

import pytest

from master.analysis.spark import RefusedStatementError
from master.base.errors import RelationExistsError, RelationInUseError
from master.planning.definitions import ViewDefinitions
from planner.relations.catalog import Column, Relation, RelationKind
from planner.sql import CreateView, parse_script
from planner.values.errors import InvalidDefinitionError, InvalidExpressionError, PlannerError, Position
from tests.unit.master.build import CLICKS
from tests.unit.master.planning.test_submission import World

FOUND = (Column("user_id", "BIGINT"), Column("page", "STRING"))


class Views(World):
    def __init__(self) -> None:
        super().__init__()
        self.definitions = ViewDefinitions(self.catalog, self.planner)

    async def create(self, text: str) -> tuple[Relation, bool]:
        (statement,) = parse_script(text)
        assert isinstance(statement, CreateView)
        return await self.definitions.create(statement)


@pytest.fixture
def views() -> Views:
    return Views()


async def test_a_view_is_checked_and_kept_with_the_types_that_spark_found(views: Views) -> None:
    view, created = await views.create("CREATE VIEW v (who, what) COMMENT 'x' AS SELECT user_id, page FROM clicks")
    assert created
    assert view.columns == (Column("who", "BIGINT"), Column("what", "STRING"))
    assert (view.kind, view.definition, view.comment) == (RelationKind.VIEW, "SELECT user_id, page FROM clicks", "x")
    assert views.catalog.get("V", RelationKind.VIEW) == view


async def test_a_view_over_a_table_is_checked_as_a_query(views: Views) -> None:
    view, _ = await views.create("CREATE VIEW v AS SELECT page AS user_id, topic AS page FROM pages")
    assert view.columns == FOUND
    assert views.spark.asked[0] == "SELECT page AS user_id, topic AS page FROM pages"


async def test_replacing_and_leaving_as_it_is(views: Views) -> None:
    await views.create("CREATE VIEW v AS SELECT user_id, page FROM clicks")
    with pytest.raises(RelationExistsError):
        await views.create("CREATE VIEW v AS SELECT user_id, page FROM clicks")
    with pytest.raises(RelationExistsError):
        await views.create("CREATE OR REPLACE VIEW clicks AS SELECT user_id, page FROM clicks")
    _, created = await views.create("CREATE VIEW IF NOT EXISTS v AS SELECT page FROM clicks")
    assert not created
    view, _ = await views.create("CREATE OR REPLACE VIEW V AS SELECT user_id + 1 AS a, page FROM clicks")
    assert views.catalog.relations(RelationKind.VIEW) == (view,)
    with pytest.raises(RelationExistsError):
        views.catalog.create(Relation("v", CLICKS.kind, CLICKS.columns, CLICKS.bindings, event_time="ts"))


async def test_views_cannot_be_defined_by_themselves(views: Views) -> None:
    await views.create("CREATE VIEW a AS SELECT user_id, page FROM clicks")
    await views.create("CREATE VIEW b AS SELECT user_id, page FROM a")
    for name in ("a", "b"):
        with pytest.raises(InvalidDefinitionError) as caught:
            await views.create(f"CREATE OR REPLACE VIEW a AS SELECT user_id, page FROM {name}")
        assert caught.value.message == "view a would be defined by itself"
        assert caught.value.position == Position(1, 29)


async def test_what_a_view_uses_cannot_be_dropped(views: Views) -> None:
    await views.create("CREATE VIEW a AS SELECT user_id, page FROM clicks JOIN pages USING (page)")
    await views.create("CREATE VIEW b AS WITH pages AS (SELECT user_id, page FROM a) SELECT * FROM pages")
    for name, user in (("clicks", "view a"), ("pages", "view a"), ("a", "view b")):
        with pytest.raises(RelationInUseError) as caught:
            views.catalog.drop(name)
        assert user in caught.value.message
    assert [views.catalog.drop(name) for name in ("b", "a", "pages")] == [True, True, True]


async def test_a_query_over_a_view_has_it_checked_again(views: Views) -> None:
    await views.create("CREATE VIEW v AS SELECT user_id, page FROM clicks")
    views.spark.asked.clear()
    await views.plan("SELECT user_id, page FROM v")
    texts = [asked for asked in views.spark.asked if not asked.endswith("FROM input")]
    assert texts == ["SELECT user_id, page FROM clicks", "SELECT user_id, page FROM v"]
    views.spark.answers["page FROM clicks"] = RefusedStatementError("no such", line=1, column=2, fragment="x")
    with pytest.raises(InvalidExpressionError) as caught:
        await views.plan("SELECT user_id, page\nFROM v")
    assert (caught.value.message, caught.value.position) == ("in view v: no such", Position(2, 6))


@pytest.mark.parametrize(
    "definition", ["", "DROP TABLE pages", "SELECT page, topic FROM nothing", "SHOW SITES; SELECT page FROM clicks"]
)
async def test_definitions_from_elsewhere_are_held_to_the_same_rules(views: Views, definition: str) -> None:
    view = Relation("v", RelationKind.VIEW, (), (), definition=definition)
    with pytest.raises(PlannerError):
        await views.definitions.declare(view, or_replace=False, if_not_exists=False)


async def test_a_view_from_elsewhere_may_name_its_columns(views: Views) -> None:
    view = Relation("v", RelationKind.VIEW, (Column("a", ""),), (), definition=" SELECT user_id, page FROM clicks;")
    with pytest.raises(InvalidDefinitionError, match="given 1 names"):
        await views.definitions.declare(view, or_replace=False, if_not_exists=False)
    named = replace(view, columns=(Column("a", ""), Column("b", "")))
    found, created = await views.definitions.declare(named, or_replace=False, if_not_exists=False)
    assert created
    assert found.columns == (Column("a", "BIGINT"), Column("b", "STRING"))
    assert found.definition == "SELECT user_id, page FROM clicks"


async def test_unions_below_aggregates_are_asked_for_their_types(views: Views) -> None:
    inner = "SELECT user_id AS n, ts FROM clicks UNION ALL SELECT 1, ts FROM clicks"
    sql = f"SELECT max(n) AS m FROM ({inner}) AS u GROUP BY window(ts, '1 minute')"
    types = {"1 AS n": (Column("n", "INT"), Column("ts", "TIMESTAMP"))}
    wide = (Column("n", "BIGINT"), Column("ts", "TIMESTAMP"))
    views.spark.answers = {
        "AS input UNION ALL": wide,
        "input.user_id AS n, input.ts AS ts FROM": wide,
        "SELECT 1 AS n": types["1 AS n"],
    }
    views.spark.answers |= {"_p0": (Column("_window_start", "TIMESTAMP"), Column("_p0", "BIGINT"))}
    plan = await views.plan(sql)
    assert "CAST(1 AS BIGINT) AS _c0" in plan.stage("s2").sql
    assert "CAST" not in plan.stage("s1").sql
