"""SQLAlchemy's engine against a master on a real gRPC server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Engine, MetaData, Table, create_engine, inspect, select, text, types
from sqlalchemy.exc import NoSuchTableError, OperationalError, ProgrammingError

from selat.v1 import common_pb2, query_pb2
from tests.integration.fake_master import FakeMaster, clicks, clicks_relation, pages_relation, wait_until


@pytest.fixture
def master() -> Iterator[FakeMaster]:
    fake = FakeMaster()
    view = common_pb2.Relation(
        name="front",
        kind=common_pb2.RELATION_KIND_VIEW,
        columns=[common_pb2.Column(name="page", type="STRING"), common_pb2.Column(name="ids", type="ARRAY<BIGINT>")],
        definition="SELECT page FROM pages",
    )
    fake.relations = {"clicks": clicks_relation(), "pages": pages_relation(), "front": view}
    fake.start()
    yield fake
    fake.stop()


@pytest.fixture
def engine(master: FakeMaster) -> Iterator[Engine]:
    found = create_engine(f"selat://{master.address}")
    yield found
    found.dispose()


def test_reflection(engine: Engine) -> None:
    found = inspect(engine)
    assert (found.get_schema_names(), found.default_schema_name) == (["default"], "default")
    assert (found.get_table_names(), found.get_view_names()) == (["pages"], ["front"])
    assert found.get_table_names(schema="other") == []
    assert all(found.has_table(name) for name in ("pages", "PAGES", "front", "clicks"))
    assert not found.has_table("nothing")
    assert not found.has_table("pages", schema="other")
    assert found.has_schema("default")
    kinds = {column["name"]: type(column["type"]) for column in found.get_columns("clicks")}
    assert kinds == {"user_id": types.BIGINT, "page": types.String, "ts": types.TIMESTAMP}
    assert found.get_view_definition("front") == "SELECT page FROM pages"
    assert found.get_table_comment("clicks") == {"text": "page visits"}
    assert found.get_pk_constraint("pages") == {"constrained_columns": [], "name": None}
    assert not found.get_indexes("pages")
    assert not found.get_foreign_keys("pages")
    assert not found.get_unique_constraints("pages")
    with pytest.raises(NoSuchTableError):
        found.get_columns("nothing")
    metadata = MetaData()
    metadata.reflect(engine, views=True)
    assert set(metadata.tables) == {"pages", "front"}
    assert [str(column.type) for column in metadata.tables["front"].columns] == ["VARCHAR", "ARRAY<BIGINT>"]


def test_values_and_rows(engine: Engine, master: FakeMaster) -> None:
    visits = Table("clicks", MetaData(), autoload_with=engine)
    with engine.connect() as connection:
        rows = connection.execute(select(visits).where(visits.c.page == "it's"))
        assert [row.user_id for row in rows] == [1, 2, 3]
        assert master.executed[-1].endswith("WHERE `clicks`.`page` = 'it\\'s'")
        connection.execute(text("SELECT * FROM clicks WHERE user_id = :user AND page = '\\:x'"), {"user": -1}).all()
        assert master.executed[-1] == "SELECT * FROM clicks WHERE user_id = -1 AND page = ':x'"
        assert connection.execute(text("SHOW STREAMS")).scalar() == "clicks"
        assert connection.get_isolation_level() == "AUTOCOMMIT"
        connection.rollback()


def test_rows_of_a_stream_come_as_they_are_read(engine: Engine, master: FakeMaster) -> None:
    master.on_submit = None
    with engine.connect() as connection:
        result = connection.execution_options(stream_results=True).execute(text("SELECT * FROM clicks"))
        (name,) = master.queries
        master.publish(name, clicks(7))
        first = result.fetchone()
        assert first is not None
        assert first.user_id == 7
        result.close()
    wait_until(lambda: master.queries[name].message.state == query_pb2.QUERY_STATE_CANCELLED)


def test_errors(engine: Engine, master: FakeMaster) -> None:
    with engine.connect() as connection, pytest.raises(ProgrammingError, match="nope"):
        connection.execute(text("SELECT nope FROM clicks"))
    with pytest.raises(OperationalError):
        create_engine("selat://127.0.0.1:1").connect()
    other = create_engine(f"selat://{master.address}", pool_pre_ping=True)
    with other.connect():
        pass
    with other.connect():
        pass
    other.dispose()
