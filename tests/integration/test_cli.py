"""The command against a master on a real gRPC server: output, exit codes, signals."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import selat
from selat.cli import cli
from selat.v1 import member_pb2, query_pb2, site_pb2
from tests.integration.fake_master import PLAN, FakeMaster, clicks, clicks_relation, pages_relation, wait_until

Run = Callable[..., Result]


@pytest.fixture
def master(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMaster]:
    fake = FakeMaster()
    fake.relations = {"clicks": clicks_relation(), "pages": pages_relation()}
    fake.start()
    monkeypatch.setenv("SELAT_MASTER", fake.address)
    yield fake
    fake.stop()


@pytest.fixture
def run(master: FakeMaster) -> Run:
    """Runs the command with its output into a pipe."""

    def invoke(*arguments: str, stdin: str | None = None) -> Result:
        return CliRunner().invoke(cli, arguments, input=stdin, prog_name="selat")

    return invoke


def lines(result: Result) -> list[Any]:
    """Standard output as JSON lines."""
    assert result.exit_code == 0, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


ROWS = [
    {"user_id": 1, "page": "/p1", "ts": "2013-01-01T00:00:01Z"},
    {"user_id": 2, "page": "/p2", "ts": "2013-01-01T00:00:02Z"},
    {"user_id": 3, "page": "/p3", "ts": "2013-01-01T00:00:03Z"},
]

TABLE = """\
user_id  page  ts
-------  ----  -------------------
      1  /p1   2013-01-01 00:00:01
      2  /p2   2013-01-01 00:00:02
      3  /p3   2013-01-01 00:00:03
(3 rows)
"""


class TestSharing:
    """A query whose only task is another's."""

    @pytest.fixture
    def shared(self, master: FakeMaster) -> query_pb2.Query:
        master.on_submit = None
        query = master.queries[master.add_query("SELECT user_id, page, ts FROM clicks", name="visits")].message
        query.tasks[0].query_id = "q-0000-abcdef"
        query.sharing.mode, query.sharing.start, query.sharing.bytes_saved = "sana", "next-window", 2048
        query.sharing.starts_at_us = 60_000_000
        operator = query.sharing.operators.add(
            task_id="q-0000-abcdef.s1.p1", kind="source", site="us", queries=["q-0000-abcdef", query.id]
        )
        operator.links.add(from_site="us", to_site="eu", bytes=4096, bytes_saved=2048)
        return query

    @pytest.mark.usefixtures("shared")
    def test_shared_tasks_are_listed_with_what_they_save(self, run: Run) -> None:
        (listed,) = lines(run("sharing", "-o", "json"))
        assert (listed["queries"], listed["links"][0]["bytes_saved"]) == (["q-0000-abcdef", "q-0001-abcdef"], 2048)
        text = run("sharing", "-o", "table").stdout
        assert "us->eu" in text
        assert "2.0 kB" in text

    @pytest.mark.usefixtures("shared")
    def test_a_query_shows_what_it_shares_and_where_it_began(self, run: Run) -> None:
        text = run("query", "show", "visits", "-o", "table").stdout
        assert "sana, 2.0 kB of what others sent anyhow" in text
        assert "1970-01-01 00:01:00" in text
        assert "shared with others" in text
        (info,) = lines(run("query", "show", "visits", "-o", "json"))
        assert (info["sharing"]["starts_at"], info["sharing"]["bytes_saved"]) == ("1970-01-01T00:01:00Z", 2048)


class TestSql:
    def test_a_select_is_followed_as_json_lines_into_a_pipe(self, run: Run) -> None:
        assert lines(run("sql", "SELECT * FROM clicks")) == ROWS

    def test_as_a_table(self, run: Run) -> None:
        assert run("sql", "-o", "table", "SELECT * FROM clicks").stdout == TABLE

    def test_as_csv(self, run: Run) -> None:
        text = run("-o", "csv", "sql", "SELECT * FROM clicks").stdout
        assert text.splitlines()[:2] == ["user_id,page,ts", "1,/p1,2013-01-01T00:00:01Z"]

    def test_as_an_arrow_stream(self, run: Run) -> None:
        table = pa.ipc.open_stream(run("sql", "-o", "arrow", "SELECT * FROM clicks").stdout_bytes).read_all()
        assert table.column("user_id").to_pylist() == [1, 2, 3]

    def test_detach_prints_the_bare_id(self, run: Run, master: FakeMaster) -> None:
        master.on_submit = None
        assert run("sql", "--detach", "--name", "visits", "SELECT * FROM clicks").stdout == "q-0001-abcdef\n"
        assert master.queries["q-0001-abcdef"].message.name == "visits"

    def test_detach_as_json(self, run: Run) -> None:
        answer = lines(run("sql", "--detach", "-o", "json", "SELECT * FROM clicks"))
        assert answer == [{"query": "q-0001-abcdef", "name": None}]

    def test_no_follow_leaves_it_running(self, run: Run, master: FakeMaster) -> None:
        master.on_submit = None
        assert lines(run("sql", "--no-follow", "SELECT 1")) == [{"query": "q-0001-abcdef", "name": None}]

    def test_only_the_last_select_of_a_script_is_followed(self, run: Run, tmp_path: Path) -> None:
        script = tmp_path / "a.sql"
        script.write_text("CREATE STREAM a (x INT); SELECT 1 FROM a;\nSHOW STREAMS; SELECT * FROM clicks;")
        assert lines(run("sql", "-f", str(script))) == [
            {"done": "create done"},
            {"query": "q-0001-abcdef", "name": None},
            {"name": "clicks", "sites": "us, eu", "columns": "user_id, page, ts"},
            *ROWS,
        ]

    def test_a_select_that_is_not_last_is_not_followed(self, run: Run, master: FakeMaster) -> None:
        master.on_submit = None
        assert lines(run("sql", "SELECT 1; SHOW STREAMS"))[0] == {"query": "q-0001-abcdef", "name": None}

    @pytest.mark.parametrize("arguments", [("-",), ()])
    def test_standard_input(self, run: Run, arguments: tuple[str, ...]) -> None:
        assert lines(run("sql", *arguments, stdin="DROP STREAM a;")) == [{"done": "drop done"}]

    def test_what_is_no_row_stays_out_of_csv(self, run: Run) -> None:
        result = run("sql", "-o", "csv", "DROP STREAM a; SHOW STREAMS")
        assert result.stdout.splitlines() == ["name,sites,columns", 'clicks,"us, eu","user_id, page, ts"']
        assert result.stderr == "drop done\n"

    def test_explain(self, run: Run) -> None:
        assert run("sql", "-o", "table", "EXPLAIN SELECT 1").stdout == PLAN + "\n"
        assert run("sql", "-o", "json", "EXPLAIN SELECT 1").stdout == '{"stages": ["s1"]}\n'
        assert run("sql", "-o", "csv", "EXPLAIN SELECT 1").stdout.splitlines()[0] == "plan"

    def test_a_refused_statement_is_quoted(self, run: Run) -> None:
        result = run("sql", "SELECT user_id,\n  nope\nFROM clicks")
        assert result.exit_code == 3
        assert result.stdout == ""
        assert result.stderr.splitlines() == [
            "error[UNKNOWN_COLUMN]: no column is named nope",
            "   2 |   nope",
            "     |   ^^^^",
            "hint: columns of clicks: user_id, page, ts",
        ]

    def test_a_refused_statement_as_json(self, run: Run) -> None:
        result = run("sql", "-o", "json", "SELECT nope")
        assert result.exit_code == 3
        error = json.loads(result.stderr)["error"]
        assert (error["code"], error["line"], error["column"], error["found"]) == ("UNKNOWN_COLUMN", 1, 8, "nope")

    def test_what_was_done_before_the_refusal_is_told(self, run: Run, master: FakeMaster) -> None:
        master.on_submit = None
        result = run("sql", "DROP STREAM a; SELECT 1; SELECT nope")
        assert result.exit_code == 3
        assert [json.loads(line) for line in result.stdout.splitlines()] == [
            {"done": "drop done"},
            {"query": "q-0001-abcdef", "name": None},
        ]

    def test_a_failed_query(self, run: Run, master: FakeMaster) -> None:
        master.fail_with = "disk full"
        result = run("sql", "SELECT * FROM clicks")
        assert result.exit_code == 1
        assert len(result.stdout.splitlines()) == 3
        assert result.stderr == "error[QUERY_FAILED]: query q-0001-abcdef failed: disk full\n"

    def test_a_query_that_somebody_else_cancels(self, run: Run, master: FakeMaster) -> None:
        master.on_submit = None

        def cancel() -> None:
            wait_until(lambda: master.cursors)
            master.end("q-0001-abcdef", query_pb2.QUERY_STATE_CANCELLED)

        threading.Thread(target=cancel).start()
        result = run("sql", "SELECT * FROM clicks")
        assert (result.exit_code, result.stderr) == (0, "query q-0001-abcdef was cancelled\n")

    def test_without_rows_csv_has_a_header(self, run: Run, master: FakeMaster) -> None:
        master.on_submit = []
        assert run("sql", "-o", "csv", "SELECT 1").stdout == "user_id,page,ts\n"


class TestUsage:
    @pytest.mark.parametrize(
        "arguments",
        [
            ("nothing",),
            ("sql", "-f", "/no/such/file"),
            ("sql", "SELECT 1", "-f", "-"),
            ("sql", "-o", "xml", "SELECT 1"),
            ("query", "show"),
            ("--master", "http://x", "site", "list"),
        ],
    )
    def test_exit_code_2(self, run: Run, arguments: tuple[str, ...]) -> None:
        result = run(*arguments)
        assert result.exit_code == 2
        assert "Traceback" not in result.output

    def test_version(self, run: Run) -> None:
        assert run("--version").stdout == "selat 0.1.0\n"

    def test_help_lists_every_command_and_the_exit_codes(self, run: Run) -> None:
        text = run("--help").stdout
        for name in ("sql", "query", "stream", "table", "view", "function", "site", "dev", "demo", "master", "agent"):
            assert f"\n  {name} " in text
        assert "5 master unreachable" in text

    @pytest.mark.parametrize(
        "command",
        ["sql", "query list", "query show", "query explain", "query results", "query cancel",
         "query pause", "query resume", "stream list",
         "stream show", "table list", "table show", "view list", "view show",
         "site list", "site show", "site drain", "site undrain", "doctor",
         "function create", "function list", "function show", "function drop"],
    )  # fmt: skip
    def test_every_command_has_help_with_an_example(self, run: Run, command: str) -> None:
        result = run(*command.split(), "--help")
        assert result.exit_code == 0
        assert f"  selat {command}" in result.stdout

    def test_an_unreachable_master(self, run: Run, master: FakeMaster) -> None:
        master.stop()
        result = run("query", "list", "--master", master.address)
        assert result.exit_code == 5
        assert result.stderr.startswith(f"error[UNAVAILABLE]: no master answers at {master.address}")
        assert "selat dev" in result.stderr

    def test_options_before_and_after_the_command(self, run: Run, master: FakeMaster) -> None:
        before = run("--master", master.address, "-o", "csv", "site", "list")
        after = run("--master", "127.0.0.1:1", "site", "list", "--master", master.address, "-o", "csv")
        assert before.stdout == after.stdout
        assert before.stdout.startswith("name,state,")


class TestQuery:
    def test_list(self, run: Run, master: FakeMaster) -> None:
        running, ended = master.add_query(name="visits"), master.add_query()
        master.end(ended)
        assert [q["id"] for q in lines(run("query", "list"))] == [running]
        both = lines(run("query", "list", "--all"))
        assert [q["state"] for q in both] == ["running", "finished"]
        assert both[0]["links"][0]["bytes"] == 1_500_000

    def test_list_for_people(self, run: Run, master: FakeMaster) -> None:
        master.add_query(name="visits")
        header, row = run("query", "list", "-o", "table").stdout.splitlines()
        assert header.split() == "ID NAME STATE ROWS IN ROWS OUT LINK WATERMARK SUBMITTED AT SQL".split()  # noqa: SIM905
        assert "1.5 MB" in row
        assert "2013-01-01 00:00:05" in row

    def test_list_as_csv_is_raw(self, run: Run, master: FakeMaster) -> None:
        master.add_query(name="visits")
        assert run("query", "list", "-o", "csv").stdout.splitlines() == [
            "id,name,state,rows_in,rows_out,link_bytes,watermark,submitted_at,sql",
            "q-0001-abcdef,visits,running,10,0,1500000,2013-01-01T00:00:05Z,2013-01-01T00:00:00Z,SELECT * FROM clicks",
        ]

    def test_show(self, run: Run, master: FakeMaster) -> None:
        query_id = master.add_query(name="visits")
        master.end(query_id, query_pb2.QUERY_STATE_FAILED, "disk full")
        (shown,) = lines(run("query", "show", "visits"))
        assert (shown["state"], shown["tasks"][0]["lag_rows"]) == ("failed", 1200)
        text = run("query", "show", "visits", "-o", "table").stdout
        assert "failed (disk full)" in text
        assert "2013-01-01 00:00:00, 1 min 5 s in all" in text
        assert "2.0 kB" in text

    def test_show_watch_goes_on_until_it_is_over(self, run: Run, master: FakeMaster) -> None:
        query_id = master.add_query()
        threading.Timer(0.2, master.end, [query_id]).start()
        states = [info["state"] for info in lines(run("query", "show", "--watch", query_id))]
        assert states[0] == "running"
        assert states[-1] == "finished"

    def test_delay_plots_until_it_is_over(self, run: Run, master: FakeMaster) -> None:
        query_id = master.add_query(name="visits")
        master.emit(query_id, 0.8)
        master.end(query_id)
        moment, emitted = run("query", "delay", "visits", "-o", "table").stdout.splitlines()
        assert moment == "2013-01-01 00:00:00  running: all tasks run"
        assert emitted.endswith("    0.8 s  ████")
        (value,) = lines(run("query", "delay", "visits", "--scale", "0.1"))
        assert (value["stage"], value["site"], value["delay_s"]) == ("s1", "us", 0.8)

    def test_explain(self, run: Run, master: FakeMaster) -> None:
        query_id = master.add_query()
        assert run("query", "explain", query_id, "-o", "table").stdout == PLAN + "\n"
        assert lines(run("query", "explain", query_id)) == [{"stages": ["s1"]}]

    def test_explain_with_what_is_measured(self, run: Run, master: FakeMaster) -> None:
        query_id = master.add_query()
        measured = {"query": query_id, "links": []}
        assert run("query", "explain", query_id, "--analyze", "-o", "table").stdout == f"Query {query_id}\n"
        assert lines(run("query", "explain", query_id, "--analyze", "--json", "-o", "table")) == [measured]
        assert run("query", "explain", query_id, "--watch").exit_code == 2
        threading.Timer(0.2, master.end, [query_id]).start()
        answers = lines(run("query", "explain", query_id, "--analyze", "--watch"))
        assert answers
        assert all(answer == measured for answer in answers)

    def test_results_that_are_there(self, run: Run, master: FakeMaster) -> None:
        query_id = master.add_query()
        master.publish(query_id, clicks(1, 2, 3))
        assert lines(run("query", "results", query_id, "--no-follow")) == ROWS

    def test_results_go_on_where_the_cursor_file_says(self, run: Run, master: FakeMaster, tmp_path: Path) -> None:
        query_id, place = master.add_query(), str(tmp_path / "place")
        master.publish(query_id, clicks(1, 2))
        first = lines(run("query", "results", query_id, "--no-follow", "--cursor-file", place))
        assert lines(run("query", "results", query_id, "--no-follow", "--cursor-file", place)) == []
        master.publish(query_id, clicks(3))
        master.end(query_id)
        assert first + lines(run("query", "results", query_id, "--cursor-file", place)) == ROWS
        assert os.listdir(tmp_path) == ["place"]

    def test_results_begin_at_an_epoch(self, run: Run, master: FakeMaster, tmp_path: Path) -> None:
        query_id, place = master.add_query(), str(tmp_path / "place")
        for user in (1, 2, 3):
            master.publish(query_id, clicks(user))
        arguments = ("query", "results", query_id, "--no-follow", "--from-epoch", "1", "--cursor-file", place)
        assert lines(run(*arguments)) == ROWS[1:]
        assert lines(run(*arguments)) == []

    def test_results_that_are_gone_and_those_that_are_there(self, run: Run, master: FakeMaster) -> None:
        query_id = master.add_query()
        for user in (1, 2, 3):
            master.publish(query_id, clicks(user))
        master.first_epoch = 1
        refused = run("query", "results", query_id, "--no-follow")
        assert (refused.exit_code, "RESULTS_GONE" in refused.stderr) == (3, True)
        assert lines(run("query", "results", query_id, "--no-follow", "--from-epoch", "first")) == ROWS[1:]
        wrong = run("query", "results", query_id, "--from-epoch", "last")
        assert (wrong.exit_code, "neither an epoch's number, from 0 on, nor first" in wrong.stderr) == (2, True)

    def test_a_query_that_writes_into_a_sink(self, run: Run, master: FakeMaster) -> None:
        done = run("sql", "INSERT INTO daily SELECT * FROM clicks")
        (told,) = lines(done)
        assert done.exit_code == 0
        shown = run("query", "show", told["query"], "-o", "table").stdout
        assert "writes to     sink daily at eu" in shown
        assert "rows written  3" in shown
        assert "gateway" not in shown
        refused = run("query", "results", told["query"])
        assert (refused.exit_code, "NO_RESULTS" in refused.stderr) == (3, True)

    def test_an_insert_that_fails(self, run: Run, master: FakeMaster) -> None:
        master.fail_with = "no such column"
        failed = run("sql", "INSERT INTO daily SELECT * FROM clicks")
        assert failed.exit_code == 1
        assert "no such column" in failed.stderr

    def test_an_insert_is_left_to_run(self, run: Run, master: FakeMaster) -> None:
        master.on_submit = None
        assert run("sql", "--detach", "INSERT INTO daily SELECT 1", "-o", "table").stdout == "q-0001-abcdef\n"
        assert not master.queries["q-0001-abcdef"].message.ended_at_us

    def test_a_cursor_file_of_another_query_is_refused(self, run: Run, master: FakeMaster, tmp_path: Path) -> None:
        one, other, place = master.add_query(), master.add_query(), tmp_path / "place"
        place.write_text(json.dumps({"query": one, "cursor": {}}))
        result = run("query", "results", other, "--no-follow", "--cursor-file", str(place))
        assert result.exit_code == 2
        assert f"belongs to query {one}" in result.stderr
        place.write_text("rubbish")
        assert run("query", "results", other, "--no-follow", "--cursor-file", str(place)).exit_code == 2

    def test_cancel(self, run: Run, master: FakeMaster) -> None:
        query_id = master.add_query()
        assert run("query", "cancel", query_id, "-o", "table").stdout == f"query {query_id} cancelled\n"
        assert lines(run("query", "cancel", query_id))[0]["state"] == "cancelled"

    def test_pause_and_resume(self, run: Run, master: FakeMaster) -> None:
        query_id = master.add_query()
        assert run("query", "pause", query_id, "-o", "table").stdout == f"query {query_id} paused\n"
        assert lines(run("query", "list"))[0]["state"] == "paused"
        assert lines(run("query", "resume", query_id))[0]["state"] == "resuming"

    @pytest.mark.parametrize("command", ["show", "explain", "results", "cancel", "pause", "resume"])
    def test_not_found(self, run: Run, command: str) -> None:
        result = run("query", command, "other")
        assert result.exit_code == 4
        assert result.stderr == "error[UNKNOWN_QUERY]: no query is named other\n"

    def test_a_call_that_takes_too_long(self, run: Run, master: FakeMaster) -> None:
        master.silent = True
        result = run("--timeout", "0.1", "query", "list")
        assert result.exit_code == 6
        assert result.stderr == f"error[TIMED_OUT]: the master at {master.address} did not answer in time\n"


class TestCatalogAndSites:
    def test_streams(self, run: Run) -> None:
        assert [s["name"] for s in lines(run("stream", "list"))] == ["clicks"]
        (shown,) = lines(run("stream", "show", "clicks"))
        assert shown["watermark_delay_s"] == 5.0
        assert shown["bindings"][1] == {
            "site": "eu",
            "options": {"connector": "files", "path": "/data/eu"},
            "has_log": False,
        }
        text = run("stream", "show", "clicks", "-o", "table").stdout
        assert "ts - 5 s" in text
        assert "rows_per_second = 100" in text

    def test_tables(self, run: Run) -> None:
        header, row = run("table", "list", "-o", "table").stdout.splitlines()
        assert (header.split(), row.split()) == (
            ["NAME", "COLUMNS", "SITES", "COMMENT"],
            ["pages", "page,", "topic", "us"],
        )
        assert run("table", "show", "clicks").exit_code == 4

    def test_sites(self, run: Run) -> None:
        us, eu = lines(run("site", "list"))
        assert (us["memory_bytes"], eu["state"]) == (812_000_000, "expected")
        text = run("site", "show", "us", "-o", "table").stdout
        assert "812.0 MB" in text
        assert "45 ms" in text
        assert "62.0 MB of a budget of 100.0 MB, 5.0 GB free" in text
        assert text.index("pushed streams") < text.index("q-0002-abcdef") < text.index("q-0001-abcdef")
        assert run("site", "show", "mars").exit_code == 4

    def test_a_drained_site_says_what_is_left_until_it_is_undrained(self, run: Run, master: FakeMaster) -> None:
        master.looks_with_a_merge = 1
        (drained,) = lines(run("site", "drain", "us"))
        assert [(w["kind"], w["movable"]) for w in drained["work"]] == [("source", False), ("merge", True)]
        assert drained["draining_since"] == "2013-01-01T00:00:00Z"
        shown = run("site", "list", "-o", "table").stdout
        assert "alive, draining" in shown
        (undrained,) = lines(run("site", "undrain", "us"))
        assert (undrained["draining_since"], undrained["work"]) == (None, [])
        assert run("site", "drain", "mars").exit_code == run("site", "undrain", "mars").exit_code == 4

    def test_waiting_for_a_drained_site_ends_when_only_what_is_bound_there_is_left(
        self, run: Run, master: FakeMaster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("selat.cli.commands.site._LOOK_S", 0.01)
        master.looks_with_a_merge = 3
        result = run("site", "drain", "us", "--wait", "-o", "json")
        assert "site us: 1 left that could be elsewhere" in result.stderr
        assert [w["kind"] for w in json.loads(result.stdout)["work"]] == ["source"]

    def test_waiting_for_a_site_that_somebody_undrains_ends_with_an_error(
        self, run: Run, master: FakeMaster, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("selat.cli.commands.site._LOOK_S", 0.01)
        master.looks_with_a_merge, master.undrained_meanwhile = 100, True
        result = run("site", "drain", "us", "--wait")
        assert (result.exit_code, "undrained" in result.stderr) == (1, True)


class TestDoctor:
    def test_a_cluster_with_a_site_that_is_not_there_is_wrong(
        self, run: Run, master: FakeMaster, tmp_path: Path
    ) -> None:
        disk = member_pb2.Disk(path="/data", free_bytes=10**12, total_bytes=2 * 10**12, sync_s=0.001)
        member = member_pb2.Member(version=selat.__version__, python="3.11.9", disk=disk)
        eu = site_pb2.SiteMember(site="eu", reason="its agent has not connected yet")
        us = site_pb2.SiteMember(site="us", address="us:1", member=member)
        master.members = site_pb2.DescribeMembersResponse(master=member, sites=[eu, us])
        result = run("doctor", "--data", str(tmp_path), "--json")
        found = {(f["check"], f["subject"]): f for f in map(json.loads, result.stdout.splitlines())}
        assert result.exit_code == 1
        assert (found["agent", "us"]["state"], found["agent", "eu"]["state"]) == ("ok", "wrong")
        assert "start its agent" in found["agent", "eu"]["mend"]
        assert found["disk", "here"]["what"]

    def test_without_a_cluster_this_machine_is_looked_at(self, run: Run) -> None:
        result = run("--master", "127.0.0.1:1", "doctor", "-o", "table")
        assert (result.exit_code, "no master answers" in result.stdout) == (1, True)
        assert "versions" in result.stdout


def start(*arguments: str) -> subprocess.Popen[str]:
    """The command as a process of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "selat", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


class TestSignals:
    @pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
    def test_an_interrupted_select_cancels_its_query(self, master: FakeMaster, number: int, code: int) -> None:
        master.on_submit = None
        process = start("sql", "SELECT * FROM clicks")
        wait_until(lambda: master.cursors)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (code, "", "query q-0001-abcdef cancelled\n")
        assert master.queries["q-0001-abcdef"].message.state == query_pb2.QUERY_STATE_CANCELLED

    def test_interrupted_results_leave_the_query_running(self, master: FakeMaster) -> None:
        query_id = master.add_query()
        process = start("query", "results", query_id)
        wait_until(lambda: master.cursors)
        process.send_signal(signal.SIGINT)
        assert (process.communicate(timeout=60), process.returncode) == (("", ""), 130)
        assert master.queries[query_id].message.state == query_pb2.QUERY_STATE_RUNNING

    def test_a_closed_pipe_ends_quietly_and_cancels_the_query(self, master: FakeMaster) -> None:
        master.on_submit = None
        process = start("sql", "SELECT * FROM clicks")
        wait_until(lambda: master.cursors)
        assert process.stdout is not None
        process.stdout.close()
        master.publish("q-0001-abcdef", clicks(1))
        assert process.wait(timeout=60) == 141
        assert process.stderr is not None
        assert process.stderr.read() == "query q-0001-abcdef cancelled\n"

    def test_a_restart_of_the_master_is_told_and_loses_nothing(self, master: FakeMaster) -> None:
        query_id = master.add_query()
        master.publish(query_id, clicks(1))
        process = start("query", "results", query_id)
        assert process.stdout is not None
        first = process.stdout.readline()
        master.stop()
        master.publish(query_id, clicks(2, 3))
        master.end(query_id)
        master.start()
        out, err = process.communicate(timeout=60)
        assert [json.loads(line) for line in (first + out).splitlines()] == ROWS
        assert process.returncode == 0
        assert "trying again for 120 s" in err


class TestLazyCommands:
    def test_help_loads_no_server(self) -> None:
        code = (
            "import sys\nfrom selat.cli import cli\ncli(['--help'], standalone_mode=False)\n"
            "print([m for m in ('pyspark', 'networkx', 'sqlglot', 'prompt_toolkit') if m in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == "[]"

    def test_missing_extras_are_named(self, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        result = run("dev")
        assert result.exit_code == 2
        assert "pip install 'selat[master,agent]'" in result.stderr

    @pytest.mark.parametrize(("command", "extra"), [("master", "selat[master]"), ("agent", "selat[agent]")])
    def test_servers_name_what_they_lack(
        self, run: Run, monkeypatch: pytest.MonkeyPatch, command: str, extra: str
    ) -> None:
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
        result = run(command, "--listen", "127.0.0.1:0")
        assert result.exit_code == 2
        assert f"pip install '{extra}'" in result.stderr


def test_functions_are_made_listed_and_dropped(run: Run, master: FakeMaster, tmp_path: Path) -> None:
    file = tmp_path / "geo.py"
    file.write_text("def zone(page: str) -> str:\n    return page\n\ndef _helper(): ...\n")
    (made,) = lines(run("function", "create", str(file)))
    assert (made["name"], made["returns"], made["file"]) == ("zone", "STRING", "geo.py")
    assert run("function", "create", str(file)).exit_code == 3
    assert run("function", "create", str(file), "--replace", "--name", "zone").exit_code == 0
    assert run("function", "create", str(file), "--name", "nope").exit_code == 2
    assert run("function", "create", str(tmp_path / "no.py")).exit_code == 2
    assert [f["name"] for f in lines(run("function", "list"))] == ["zone"]
    assert run("function", "drop", "zone", "-o", "table").stdout == "function zone dropped\n"
    assert run("function", "show", "zone").exit_code == 4


def test_the_files_of_a_script_go_with_it(run: Run, master: FakeMaster, tmp_path: Path) -> None:
    file = tmp_path / "geo.py"
    file.write_text("def zone(page): return page\n")
    statement = f"CREATE FUNCTION zone(page STRING) RETURNS STRING LANGUAGE PYTHON AS 'zone' FROM '{file}'"
    run("sql", statement)
    assert master.files == {str(file): file.read_text()}
    missing = run("sql", statement.replace("geo.py", "no.py"))
    assert missing.exit_code == 2
    assert "no.py: No such file" in missing.stderr
