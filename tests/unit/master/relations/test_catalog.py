"""Rules of the catalog."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from contract.times import to_us
from master.base.errors import RelationExistsError, RelationInUseError
from master.relations.catalog import CatalogManager
from master.store.sqlite import SqliteStore
from planner.relations.catalog import Binding, Column, Relation, RelationKind
from planner.relations.connectors import table
from planner.relations.connectors.spec import ConnectorSpec
from planner.relations.options import Option
from planner.values.errors import InvalidDefinitionError, PlannerError, UnknownRelationError, UnknownSiteError
from tests.fakes import VirtualClock
from tests.unit.master.build import CLICKS, PAGES, START, TOPOLOGY


class World:
    def __init__(self) -> None:
        self.store = SqliteStore.in_memory()
        self.clock = VirtualClock(START)
        self.readers: dict[str, tuple[str, ...]] = {}
        self.restart()

    def restart(self) -> None:
        self.catalog = CatalogManager(
            self.store, TOPOLOGY, clock=self.clock, live_readers=lambda name: self.readers.get(name, ())
        )


@pytest.fixture
def world() -> World:
    return World()


def test_a_declared_relation_is_stored_with_its_time(world: World) -> None:
    relation, created = world.catalog.create(CLICKS)
    assert created
    assert relation == replace(CLICKS, created_at=START)
    assert world.store.relations() == (relation,)
    world.restart()
    assert world.catalog.get("CLICKS") == relation


def test_streams_and_tables_share_one_namespace_without_regard_to_case(world: World) -> None:
    world.catalog.create(CLICKS)
    with pytest.raises(RelationExistsError, match="it is a stream"):
        world.catalog.create(replace(PAGES, name="Clicks"))


def test_if_not_exists_leaves_what_is_there(world: World) -> None:
    first, _ = world.catalog.create(CLICKS)
    assert world.catalog.create(replace(CLICKS, comment="other"), if_not_exists=True) == (first, False)
    with pytest.raises(RelationExistsError):
        world.catalog.create(replace(PAGES, name="clicks"), if_not_exists=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"name": "two words"}, "cannot be a name"),
        ({"columns": ()}, "no columns"),
        ({"columns": (Column("ts", "TIMESTAMP"), Column("Site", "STRING"))}, "reserved name"),
        ({"columns": (Column("ts", "TIMESTAMP"), Column("TS", "INT"))}, "declared twice"),
        ({"columns": (Column("ts", "TIMESTAMP"), Column("a", ""))}, "lacks its name or type"),
        ({"columns": (Column("ts", "TIMESTAMP"), Column("a", "TEXT"))}, "there is no type"),
        ({"columns": (Column("ts", "TIMESTAMP"), Column("a", "INT) UNION (SELECT 1"))}, "column a"),
        ({"event_time": None}, "needs an event-time column"),
        ({"event_time": "nope"}, "needs an event-time column"),
        ({"event_time": "page"}, "is STRING"),
        ({"watermark_delay": timedelta(microseconds=-1)}, "is negative"),
        ({"kind": RelationKind.TABLE}, "a table has no watermark"),
        ({"bindings": ()}, "bound nowhere"),
        ({"bindings": (Binding("us", {"path": "/x"}),)}, "names no connector"),
        ({"bindings": (CLICKS.bindings[0], CLICKS.bindings[0])}, "us is bound twice"),
    ],
)
def test_definitions_that_contradict_themselves(world: World, change: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidDefinitionError) as caught:
        world.catalog.create(replace(CLICKS, **change))  # type: ignore[arg-type]
    assert message in caught.value.message
    assert caught.value.hint
    assert world.store.relations() == ()


def test_a_table_cannot_be_pushed_to(world: World) -> None:
    bindings = (Binding("us", {"connector": "push"}),)
    with pytest.raises(InvalidDefinitionError, match="no table has the connector 'push' \\(at us\\)"):
        world.catalog.create(replace(PAGES, bindings=bindings))
    assert world.catalog.create(replace(CLICKS, bindings=bindings))[1]


def test_a_binding_at_an_unknown_site_is_refused_with_what_may_have_been_meant(world: World) -> None:
    with pytest.raises(UnknownSiteError) as caught:
        world.catalog.create(replace(CLICKS, bindings=(Binding("huub", {"connector": "files"}),)))
    assert caught.value.hint == "did you mean hub?"


def test_types_from_elsewhere_are_written_as_declarations_write_them(world: World) -> None:
    columns = (*CLICKS.columns, Column("a", "integer"), Column("b", "array < struct<x: decimal(10, 2)> >"))
    relation, _ = world.catalog.create(replace(CLICKS, columns=columns))
    assert [c.type for c in relation.columns[-2:]] == ["INT", "ARRAY<STRUCT<x:DECIMAL(10,2)>>"]
    again, _ = world.catalog.create(replace(relation, name="again"))
    assert again.columns == relation.columns


def test_drop(world: World) -> None:
    world.catalog.create(CLICKS)
    with pytest.raises(UnknownRelationError) as caught:
        world.catalog.drop("clicks", RelationKind.TABLE)
    assert caught.value.message == "clicks is a stream, not a table"
    assert world.catalog.drop("Clicks", RelationKind.STREAM)
    assert world.store.relations() == ()
    with pytest.raises(UnknownRelationError):
        world.catalog.drop("clicks")
    assert not world.catalog.drop("clicks", if_exists=True)


def test_drop_names_the_queries_that_read(world: World) -> None:
    world.catalog.create(CLICKS)
    world.readers["clicks"] = ("q-0001-aaaaaa", "q-0002-bbbbbb")
    with pytest.raises(RelationInUseError, match="read by q-0001-aaaaaa, q-0002-bbbbbb"):
        world.catalog.drop("clicks")
    assert world.catalog.get("clicks")


def test_an_unknown_name_comes_with_a_hint(world: World) -> None:
    world.catalog.create(CLICKS)
    with pytest.raises(UnknownRelationError) as caught:
        world.catalog.get("cliks")
    assert caught.value.hint == "did you mean clicks?"


def options(relation: Relation, site: str) -> dict[str, str]:
    return dict(next(b.options for b in relation.bindings if b.site == site))


def test_altered_options_are_merged_at_one_site_or_at_all(world: World) -> None:
    world.catalog.create(PAGES)
    relation = world.catalog.alter("pages", {"format": "csv"}, site="us")
    assert options(relation, "us") == {"connector": "files", "path": "/data/pages", "format": "csv"}
    world.catalog.create(CLICKS)
    relation = world.catalog.alter("clicks", {"seed": "7"})
    assert [options(relation, site)["seed"] for site in ("us", "eu")] == ["7", "7"]
    world.restart()
    assert world.catalog.get("clicks") == relation


@pytest.mark.parametrize(
    ("name", "site", "change", "kind"),
    [
        ("nope", None, {"a": "b"}, UnknownRelationError),
        ("pages", "eu", {"a": "b"}, UnknownSiteError),
        ("pages", "mars", {"a": "b"}, UnknownSiteError),
        ("pages", None, {}, InvalidDefinitionError),
        ("pages", None, {"connector": "generator"}, InvalidDefinitionError),
        ("clicks", "us", {"rows_per_second": "many"}, InvalidDefinitionError),
        ("clicks", "us", {"rows_per_second": "-1"}, InvalidDefinitionError),
        ("clicks", "us", {"rows_per_second": "nan"}, InvalidDefinitionError),
        ("clicks", "us", {"rows_per_second": "5000001"}, InvalidDefinitionError),
    ],
)
def test_what_cannot_be_altered(
    world: World, name: str, site: str | None, change: dict[str, str], kind: type[PlannerError]
) -> None:
    world.catalog.create(PAGES)
    world.catalog.create(CLICKS)
    before = world.store.relations()
    with pytest.raises(kind):
        world.catalog.alter(name, change, site=site)
    assert world.store.relations() == before


def test_a_generators_rates_are_a_schedule_from_its_declaration_on(world: World) -> None:
    world.catalog.create(CLICKS)
    world.clock.advance(timedelta(seconds=60))
    world.catalog.alter("clicks", {"rows_per_second": "500"}, site="us")
    world.clock.advance(timedelta(seconds=60))
    relation = world.catalog.alter("clicks", {"rows_per_second": "2.5"}, site="us")
    start = to_us(START)
    assert json.loads(options(relation, "us")["rate_schedule"]) == [
        [start, 100],
        [start + 61_000_000, 500],
        [start + 121_000_000, 2.5],
    ]
    assert options(relation, "us")["rows_per_second"] == "2.5"
    assert "rate_schedule" not in options(relation, "eu")


def test_a_change_before_a_generators_start_takes_effect_at_its_start(world: World) -> None:
    late = replace(CLICKS.bindings[0], options={"connector": "generator", "start": "2026-01-01T01:00:00Z"})
    world.catalog.create(replace(CLICKS, bindings=(late,)))
    relation = world.catalog.alter("clicks", {"rows_per_second": "500"})
    start = to_us(START) + 3600 * 1_000_000
    assert json.loads(options(relation, "us")["rate_schedule"]) == [[start, 10], [start, 500]]


def test_other_options_of_a_generator_leave_its_schedule_alone(world: World) -> None:
    world.catalog.create(CLICKS)
    relation = world.catalog.alter("clicks", {"seed": "7"})
    assert "rate_schedule" not in options(relation, "us")


def test_the_rate_of_another_connector_is_an_option_like_any(world: World) -> None:
    world.catalog.create(PAGES)
    relation = world.catalog.alter("pages", {"rows_per_second": "5"})
    assert "rate_schedule" not in options(relation, "us")


def test_a_secret_is_declared_and_altered_by_reference_only(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    password = Option("password", str, "a text", "", secret=True)
    vault = ConnectorSpec("vault", frozenset({RelationKind.STREAM}), (password,))
    monkeypatch.setitem(table.CONNECTORS, "vault", vault)
    good = replace(CLICKS, bindings=(Binding("us", {"connector": "vault", "password": "${secret:eu}"}),))
    bad = replace(CLICKS, bindings=(Binding("us", {"connector": "vault", "password": "hunter2"}),))
    with pytest.raises(InvalidDefinitionError, match="'password' is a secret") as caught:
        world.catalog.create(bad)
    assert "hunter2" not in repr(vars(caught.value))
    world.catalog.create(good)
    with pytest.raises(InvalidDefinitionError, match="'password' is a secret") as caught:
        world.catalog.alter("clicks", {"password": "hunter2"})
    assert "hunter2" not in repr(vars(caught.value))
    relation = world.catalog.alter("clicks", {"password": "${secret:other}"})
    assert relation.bindings[0].options["password"] == "${secret:other}"
