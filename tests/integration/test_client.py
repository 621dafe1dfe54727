"""The client library against a master on a real gRPC server."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import grpc
import pyarrow as pa
import pytest

import selat
from selat.v1 import query_pb2
from tests.integration.fake_master import (
    PLAN,
    FakeMaster,
    clicks,
    clicks_relation,
    pages_relation,
    wait_until,
)
from tests.integration.fake_sites import T0_US


@pytest.fixture
def master() -> Iterator[FakeMaster]:
    fake = FakeMaster()
    fake.relations = {"clicks": clicks_relation(), "pages": pages_relation()}
    fake.start()
    yield fake
    fake.stop()


@pytest.fixture
def client(master: FakeMaster) -> Iterator[selat.Client]:
    with selat.connect(master.address, reconnect=timedelta(seconds=10)) as connected:
        yield connected


def submit(client: selat.Client, sql: str = "SELECT * FROM clicks", *, name: str = "") -> selat.Query:
    query = client.sql(sql, name=name)
    assert isinstance(query, selat.Query)
    return query


class TestConnect:
    def test_says_clearly_that_no_master_answers(self, master: FakeMaster) -> None:
        master.stop()
        with pytest.raises(selat.Unavailable) as caught:
            selat.connect(master.address)
        assert caught.value.message == f"no master answers at {master.address} (Connection refused)"
        assert "selat dev" in caught.value.hint

    def test_takes_the_address_of_the_environment(self, master: FakeMaster, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SELAT_MASTER", master.address)
        with selat.connect() as client:
            assert client.address == master.address

    def test_a_server_that_is_no_master_is_named_as_such(self) -> None:
        server = grpc.server(__import__("concurrent.futures").futures.ThreadPoolExecutor(1))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        with pytest.raises(selat.ServerFault, match="not a Selat master"):
            selat.connect(f"127.0.0.1:{port}")
        server.stop(grace=None)

    def test_needs_no_server_code(self) -> None:
        banned = ("pyspark", "networkx", "sqlglot", "pandas", "planner", "master", "site_agent")
        code = (
            "import sys, selat\n"
            "from selat.cli.commands import prompt, query, relation, site, sql\n"
            f"print([m for m in {banned!r} if m in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.strip() == "[]"


class TestStatements:
    def test_a_select_becomes_a_query(self, client: selat.Client) -> None:
        query = submit(client, name="visits")
        assert query.id == "q-0001-abcdef"
        assert query.last.name == "visits"
        assert [c.name for c in query.last.columns] == ["user_id", "page", "ts"]

    def test_show_becomes_rows(self, client: selat.Client) -> None:
        rows = client.sql("SHOW STREAMS")
        assert isinstance(rows, selat.Rows)
        assert list(rows) == [{"name": "clicks", "sites": "us, eu", "columns": "user_id, page, ts"}]

    def test_explain_becomes_an_explanation(self, client: selat.Client) -> None:
        plan = client.sql("EXPLAIN SELECT 1")
        assert isinstance(plan, selat.Explanation)
        assert str(plan) == PLAN
        assert json.loads(plan.json) == {"stages": ["s1"]}

    def test_everything_else_is_done(self, client: selat.Client) -> None:
        assert client.sql("DROP STREAM clicks;") == selat.Done("drop done")

    @pytest.mark.parametrize("text", ["", "-- nothing\n", "SHOW STREAMS; SHOW TABLES"])
    def test_sql_takes_one_statement(self, client: selat.Client, master: FakeMaster, text: str) -> None:
        with pytest.raises(selat.InvalidArgument):
            client.sql(text)
        assert master.executed == []

    def test_a_script_yields_what_each_statement_came_to(self, client: selat.Client) -> None:
        outcomes = list(client.script("CREATE STREAM a; SHOW STREAMS; -- last\nSELECT 1 FROM a"))
        assert [type(o) for o in outcomes] == [selat.Done, selat.Rows, selat.Query]

    def test_a_refused_statement_tells_the_place(self, client: selat.Client) -> None:
        outcomes = client.script("SHOW STREAMS;\nSELECT user_id,\n  nope FROM clicks")
        assert isinstance(next(outcomes), selat.Rows)
        with pytest.raises(selat.StatementError) as caught:
            next(outcomes)
        error = caught.value
        assert (error.code, error.line, error.column, error.found) == ("UNKNOWN_COLUMN", 3, 3, "nope")
        assert error.hint == "columns of clicks: user_id, page, ts"


class TestCatalogAndSites:
    def test_streams_and_tables(self, client: selat.Client) -> None:
        assert [s.name for s in client.streams()] == ["clicks"]
        assert [t.name for t in client.tables()] == ["pages"]
        stream = client.stream("clicks")
        assert stream.event_time == "ts"
        assert stream.watermark_delay == timedelta(seconds=5)
        assert stream.bindings[0].options["rows_per_second"] == "100"

    def test_a_table_is_no_stream(self, client: selat.Client) -> None:
        with pytest.raises(selat.NotFound) as caught:
            client.stream("pages")
        assert caught.value.hint == "pages is a table"

    def test_create_drop_alter(self, client: selat.Client) -> None:
        relation = selat.Relation(
            name="topics",
            kind=selat.RelationKind.TABLE,
            columns=(selat.Column("topic", "STRING"),),
            bindings=(selat.Binding("us", {"connector": "files", "path": "/t.csv"}),),
        )
        assert client.create_relation(relation)
        assert not client.create_relation(relation, if_not_exists=True)
        with pytest.raises(selat.StatementError) as caught:
            client.create_relation(relation)
        assert caught.value.code == "RELATION_EXISTS"
        assert client.table("topics").bindings == relation.bindings
        altered = client.alter("clicks", {"rows_per_second": "500"}, site="us")
        assert [b.options.get("rows_per_second") for b in altered.bindings] == ["500", None]
        assert client.drop("topics", kind=selat.RelationKind.TABLE)
        assert not client.drop("topics", if_exists=True)
        with pytest.raises(selat.NotFound):
            client.drop("topics")

    def test_sites(self, client: selat.Client) -> None:
        us, eu = client.sites()
        assert (us.name, us.state, us.gateway) == ("us", selat.SiteState.ALIVE, True)
        assert (eu.state, eu.last_report) == (selat.SiteState.EXPECTED, None)
        assert client.site("us").outgoing[0].latency == timedelta(milliseconds=45)
        with pytest.raises(selat.NotFound):
            client.site("mars")


class TestQuery:
    def test_by_id_prefix_and_name(self, client: selat.Client, master: FakeMaster) -> None:
        query_id = master.add_query(name="visits")
        assert client.query("q-0001").id == client.query("visits").id == query_id
        with pytest.raises(selat.NotFound) as caught:
            client.query("other")
        assert caught.value.ids == {"query": "other"}

    def test_lists_what_runs_or_all(self, client: selat.Client, master: FakeMaster) -> None:
        running, ended = master.add_query(), master.add_query()
        master.end(ended)
        assert [q.id for q in client.queries()] == [running]
        assert [q.id for q in client.queries(all=True)] == [running, ended]

    def test_info_and_state_are_fresh(self, client: selat.Client, master: FakeMaster) -> None:
        query = client.query(master.add_query())
        assert query.state() is selat.QueryState.RUNNING
        master.end(query.id)
        assert query.last.state is selat.QueryState.RUNNING
        assert query.info().state is selat.QueryState.FINISHED
        assert query.last.ended_at == datetime(2013, 1, 1, 0, 1, 5, tzinfo=UTC)

    def test_wait_returns_how_it_ended(self, client: selat.Client, master: FakeMaster) -> None:
        query = client.query(master.add_query())
        threading.Timer(0.1, master.end, [query.id, query_pb2.QUERY_STATE_FAILED, "disk full"]).start()
        info = query.wait(timedelta(seconds=10))
        assert (info.state, info.reason) == (selat.QueryState.FAILED, "disk full")

    def test_wait_times_out(self, client: selat.Client, master: FakeMaster) -> None:
        query = client.query(master.add_query())
        with pytest.raises(selat.TimedOut, match="is still running"):
            query.wait(timedelta(milliseconds=200))

    def test_cancel_and_watch(self, client: selat.Client, master: FakeMaster) -> None:
        query = client.query(master.add_query())
        states = []
        with query.watch() as watch:
            for info in watch:
                states.append(info.state)
                if len(states) == 1:
                    assert query.cancel().state is selat.QueryState.CANCELLED
        assert states[0] is selat.QueryState.RUNNING
        assert states[-1] is selat.QueryState.CANCELLED

    def test_explain(self, client: selat.Client, master: FakeMaster) -> None:
        assert client.query(master.add_query()).explain().text == PLAN


class TestResults:
    def test_batches(self, client: selat.Client) -> None:
        first, second = submit(client).results()
        assert first.batch.column("user_id").to_pylist() == [1, 2]
        assert (second.channel, second.epoch) == ("q-0001-abcdef.s1.p1", 1)
        assert second.watermark == datetime(2013, 1, 1, 0, 0, 1, tzinfo=UTC)

    def test_arrow_pandas_and_rows(self, client: selat.Client) -> None:
        query = submit(client)
        table = query.results().arrow()
        assert table.column("user_id").to_pylist() == [1, 2, 3]
        assert list(query.results().pandas()["page"]) == ["/p1", "/p2", "/p3"]
        assert [row["page"] for row in query.results().rows()] == ["/p1", "/p2", "/p3"]

    def test_no_rows_still_have_columns(self, client: selat.Client, master: FakeMaster) -> None:
        master.on_submit = []
        table = submit(client).results().arrow()
        assert table.num_rows == 0
        assert table.schema.types == [pa.int64(), pa.string(), pa.timestamp("us", tz="UTC")]

    def test_without_follow_it_ends_with_what_there_is(self, client: selat.Client, master: FakeMaster) -> None:
        query = client.query(master.add_query())
        master.publish(query.id, clicks(1))
        results = query.results(follow=False)
        assert [b.batch.num_rows for b in results] == [1]
        assert results.info.state is selat.QueryState.RUNNING

    def test_a_cursor_goes_through_json_and_resumes_after_the_last_batch(
        self, client: selat.Client, master: FakeMaster
    ) -> None:
        query = client.query(master.add_query())
        for user, site in ((1, "us"), (2, "eu"), (3, "us"), (4, "eu")):
            master.publish(query.id, clicks(user), site=site)
        master.end(query.id)
        results = query.results()
        seen = [next(results).batch.column("user_id")[0].as_py() for _ in range(3)]
        stored = json.dumps(results.cursor)
        results.close()
        rest = query.results(cursor=json.loads(stored))
        assert seen + [row["user_id"] for row in rest.rows()] == [1, 2, 3, 4]

    def test_the_cursor_of_rows_moves_with_a_batchs_last_row(self, client: selat.Client) -> None:
        results = submit(client).results()
        rows = results.rows()
        next(rows)
        assert results.cursor == {}
        next(rows)
        assert results.cursor == {"q-0001-abcdef.s1.p1": 1}

    @pytest.mark.parametrize("cursor", [{"c": -1}, {"c": "1"}, {1: 1}, {"c": True}])
    def test_a_wrong_cursor_is_refused_before_anything_is_sent(
        self, client: selat.Client, master: FakeMaster, cursor: dict[str, int]
    ) -> None:
        query = client.query(master.add_query())
        with pytest.raises(selat.InvalidArgument):
            query.results(cursor=cursor)
        assert master.cursors == []

    def test_a_failed_query_raises_after_its_last_batch(self, client: selat.Client, master: FakeMaster) -> None:
        master.fail_with = "disk full"
        results = submit(client).results()
        assert [next(results).epoch, next(results).epoch] == [0, 1]
        with pytest.raises(selat.QueryFailed, match="disk full"):
            next(results)

    def test_closing_ends_a_reader_that_waits(self, client: selat.Client, master: FakeMaster) -> None:
        results = client.query(master.add_query()).results()
        seen: list[selat.ResultBatch] = []
        reader = threading.Thread(target=lambda: seen.extend(results))
        reader.start()
        wait_until(lambda: master.cursors)
        results.close()
        reader.join(timeout=60)
        assert not reader.is_alive()
        assert seen == []


class TestReconnect:
    def test_every_batch_once_across_a_restart_of_the_master(self, client: selat.Client, master: FakeMaster) -> None:
        query = client.query(master.add_query())
        for user in (1, 2):
            master.publish(query.id, clicks(user))
        results = query.results()
        seen = [next(results).batch.column("user_id")[0].as_py() for _ in range(2)]
        master.stop()
        for user in (3, 4):
            master.publish(query.id, clicks(user))
        master.end(query.id)
        threading.Timer(0.5, master.start).start()
        seen += [batch.batch.column("user_id")[0].as_py() for batch in results]
        assert seen == [1, 2, 3, 4]
        assert master.cursors == [{}, {f"{query.id}.s1.p1": 2}]

    @pytest.mark.parametrize("status", [grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED])
    def test_every_batch_once_when_calls_break_off(
        self, client: selat.Client, master: FakeMaster, status: grpc.StatusCode
    ) -> None:
        master.fetch_failures = [status, status]
        master.on_submit = [clicks(1), clicks(2), clicks(3)]
        assert [row["user_id"] for row in submit(client).results().rows()] == [1, 2, 3]
        assert len(master.cursors) == 3

    def test_another_failure_is_raised_at_once(self, client: selat.Client, master: FakeMaster) -> None:
        master.fetch_failures = [grpc.StatusCode.DATA_LOSS]
        results = submit(client).results()
        assert next(results).epoch == 0
        with pytest.raises(selat.ServerFault):
            next(results)
        assert len(master.cursors) == 1

    def test_a_master_that_stays_away_ends_the_reading(self, master: FakeMaster) -> None:
        with selat.connect(master.address, reconnect=timedelta(milliseconds=300)) as client:
            query = client.query(master.add_query())
            master.publish(query.id, clicks(1))
            results = query.results()
            next(results)
            master.stop()
            with pytest.raises(selat.ConnectionLost, match="gave up"):
                next(results)

    def test_watching_goes_on_after_a_restart(self, client: selat.Client, master: FakeMaster) -> None:
        query = client.query(master.add_query())
        watch = query.watch()
        assert next(watch).state is selat.QueryState.RUNNING
        master.stop()
        master.end(query.id)
        threading.Timer(0.3, master.start).start()
        assert [info.state for info in watch][-1] is selat.QueryState.FINISHED


def test_times_are_aware(client: selat.Client, master: FakeMaster) -> None:
    info = client.query(master.add_query()).last
    assert info.submitted_at == datetime.fromtimestamp(T0_US / 1e6, tz=UTC)
    assert info.submitted_at.utcoffset() == timedelta(0)


class TestSinks:
    def test_they_are_declared_and_listed(self, master: FakeMaster, client: selat.Client) -> None:
        sink = selat.Relation("daily", selat.RelationKind.SINK, (), (selat.Binding("eu", {"path": "/out"}),))
        assert client.create_relation(sink)
        assert client.sinks() == [client.sink("daily")] == [sink]
        with pytest.raises(selat.NotFound, match="no sink is named clicks"):
            client.sink("clicks")

    def test_a_query_that_writes_has_no_results(self, master: FakeMaster, client: selat.Client) -> None:
        query = submit(client, "INSERT INTO daily SELECT * FROM clicks")
        assert (query.last.sink, query.last.sink_site) == ("daily", "eu")
        assert query.wait().rows_out == 3
        with pytest.raises(selat.StatementError) as caught:
            next(query.results())
        assert caught.value.code == "NO_RESULTS"

    def test_results_that_are_gone_are_an_error_of_their_own(self, master: FakeMaster, client: selat.Client) -> None:
        master.on_submit = None
        query = submit(client)
        for user in (1, 2, 3):
            master.publish(query.id, clicks(user), site="us")
        master.first_epoch = 2
        with pytest.raises(selat.ResultsGone) as gone:
            next(query.results(follow=False))
        assert (gone.value.first_epoch, gone.value.ids["query"]) == (2, query.id)
        assert [batch.epoch for batch in query.results(follow=False, from_epoch="first")] == [2]

    def test_reading_begins_at_an_epoch_in_channels_that_the_cursor_lacks(
        self, master: FakeMaster, client: selat.Client
    ) -> None:
        master.on_submit = None
        query = submit(client)
        for user in (1, 2, 3):
            master.publish(query.id, clicks(user), site="us")
            master.publish(query.id, clicks(user), site="eu")
        cursor = {f"{query.id}.s1.p0": 2}
        found = [(b.channel[-2:], b.epoch) for b in query.results(follow=False, cursor=cursor, from_epoch=1)]
        assert sorted(found) == [("p0", 2), ("p1", 1), ("p1", 2)]
        with pytest.raises(selat.InvalidArgument):
            query.results(from_epoch=-1)
