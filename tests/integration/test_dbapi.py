"""Python's database API against a master on a real gRPC server."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator

import pytest

from selat import dbapi
from selat.v1 import query_pb2
from tests.integration.fake_master import FakeMaster, clicks, clicks_relation, wait_until


@pytest.fixture
def master() -> Iterator[FakeMaster]:
    fake = FakeMaster()
    fake.relations = {"clicks": clicks_relation()}
    # Queries run until the test ends them.
    fake.on_submit = None
    fake.start()
    yield fake
    fake.stop()


@pytest.fixture
def connection(master: FakeMaster) -> Iterator[dbapi.Connection]:
    with dbapi.connect(master.address) as found:
        yield found


def test_rows_of_a_query(connection: dbapi.Connection, master: FakeMaster) -> None:
    cursor = connection.cursor()
    cursor.execute("SELECT * FROM clicks WHERE page = ?", ("/p1",))
    assert cursor.query is not None
    assert master.executed[-1].endswith("page = '/p1'")
    master.publish(cursor.query.id, clicks(1, 2))
    master.publish(cursor.query.id, clicks(3))
    assert cursor.description is not None
    assert [column[0] for column in cursor.description] == ["user_id", "page", "ts"]
    assert cursor.description[0][1] == dbapi.NUMBER
    first = cursor.fetchone()
    assert first is not None
    assert first[0] == 1
    assert [row[0] for row in cursor.fetchmany(2)] == [2, 3]
    master.end(cursor.query.id)
    assert (cursor.fetchone(), cursor.fetchall(), list(cursor), cursor.rowcount) == (None, [], [], -1)


def test_a_cursor_that_is_left_cancels_its_query(connection: dbapi.Connection, master: FakeMaster) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT * FROM clicks")
        assert cursor.query is not None
        name = cursor.query.id
        master.publish(name, clicks(1))
        assert cursor.fetchone() is not None
    wait_until(lambda: master.queries[name].message.state == query_pb2.QUERY_STATE_CANCELLED)
    assert cursor.closed
    with pytest.raises(dbapi.InterfaceError):
        cursor.fetchone()


def test_a_cursor_that_was_closed_is_forgotten(connection: dbapi.Connection) -> None:
    cursor = connection.cursor()
    known = weakref.ref(cursor)
    cursor.close()
    del cursor
    connection.cursor()
    gc.collect()
    assert known() is None


def test_small_answers(connection: dbapi.Connection) -> None:
    cursor = connection.cursor()
    assert cursor.execute("SHOW STREAMS").fetchall() == [("clicks", "us, eu", "user_id, page, ts")]
    assert cursor.execute("EXPLAIN SELECT 1").fetchall()
    cursor.execute("DROP STREAM clicks")
    assert cursor.description is None
    with pytest.raises(dbapi.ProgrammingError, match="no rows"):
        cursor.fetchone()


def test_errors_are_the_standards(connection: dbapi.Connection, master: FakeMaster) -> None:
    cursor = connection.cursor()
    with pytest.raises(dbapi.ProgrammingError, match="nope"):
        cursor.execute("SELECT nope FROM clicks")
    cursor.execute("SELECT * FROM clicks")
    assert cursor.query is not None
    master.end(cursor.query.id, query_pb2.QUERY_STATE_FAILED, "disk full")
    with pytest.raises(dbapi.OperationalError, match="disk full"):
        cursor.fetchall()
    with pytest.raises(dbapi.NotSupportedError):
        connection.rollback()
    connection.commit()
    connection.close()
    with pytest.raises(dbapi.InterfaceError):
        connection.commit()
    with pytest.raises(dbapi.OperationalError):
        dbapi.connect("127.0.0.1:1")
