"""Connectors of other packages, `examples/connector_*`, installed beside Selat; agents are killed meanwhile."""

from __future__ import annotations

import shutil
import sqlite3
import sys
from collections import Counter
from contextlib import ExitStack, closing, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import selat
from tests.deploy.tools import ROOT, run
from tests.e2e.cluster import wait_until
from tests.e2e.faults import free_port
from tests.e2e.members import Member, agent_command, connected, master_command

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(300)]

EXAMPLES = ROOT / "examples"
START = datetime(2026, 1, 1, tzinfo=UTC)
LINES = 400
WINDOW_S = 10
ROWS = 4000
GENERATED = f"'connector' = 'generator', 'rows' = '{ROWS}', 'rows_per_second' = '200', 'column.id' = 'sequence'"
COLUMNS, LINES_CONNECTOR = "ts TIMESTAMP, line STRING", "WITH ('connector' = 'lines')"
COUNTS = "SELECT window(ts, '10 seconds').start AS start, count(*) AS n FROM logs GROUP BY window(ts, '10 seconds')"


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """The environment of a member that has the examples' packages."""
    target = tmp_path / "packages"
    quiet = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation")
    copies = tmp_path / "source"
    for name in ("connector_lines", "connector_sqlite"):
        shutil.copytree(EXAMPLES / name, copies / name, ignore=shutil.ignore_patterns("__pycache__"))
    packages = [str(path) for path in sorted(copies.iterdir())]
    run(sys.executable, "-m", "pip", "install", *quiet, "--target", str(target), *packages)
    return {"PYTHONPATH": str(target)}


def write(path: Path, numbers: range) -> None:
    """Half a second from line to line."""
    with path.open("a") as file:
        file.writelines(f"{(START + timedelta(seconds=n / 2)).isoformat()} line {n}\n" for n in numbers)


def test_streams_and_tables_are_read_by_it_and_its_rows_are_counted_once(
    tmp_path: Path, installed: dict[str, str]
) -> None:
    logs = {site: tmp_path / f"{site}.lines" for site in ("us", "eu")}
    for path in logs.values():
        write(path, range(LINES // 2))
    address = f"127.0.0.1:{free_port()}"
    with ExitStack() as stack:
        # At first the master has no declaration of the connector.
        master = stack.enter_context(Member(tmp_path / "master", master_command(tmp_path, address)))

        def start(site: str) -> Member:
            command = agent_command(tmp_path, address, site)
            return stack.enter_context(Member(tmp_path / site, command, environment=installed))

        agents = {site: start(site) for site in ("us", "eu", "asia")}
        with connected(address) as client:
            wait_until(lambda: all(site.state is selat.SiteState.ALIVE for site in client.sites()))
            at = " ".join(f"AT {site} WITH ('path' = '{path}')" for site, path in logs.items())
            client.sql(f"CREATE STREAM logs ({COLUMNS}, WATERMARK FOR ts) {LINES_CONNECTOR} {at}")
            query = client.sql(COUNTS)
            assert isinstance(query, selat.Query)
            wait_until(lambda: query.info().rows_in == LINES)
            agents["eu"].kill()
            for path in logs.values():
                write(path, range(LINES // 2, LINES))
            start("eu")
            # The watermark is the newest line's time: the last window stays open.
            windows = LINES // 2 // WINDOW_S
            wait_until(lambda: query.info().rows_out == windows - 1)
            query.cancel()
            found = Counter({row["start"]: row["n"] for row in query.results(follow=False).rows()})
            assert found == Counter({START + timedelta(seconds=WINDOW_S * n): 40 for n in range(windows - 1)})

            client.sql(f"CREATE TABLE archive ({COLUMNS}) {LINES_CONNECTOR} {at}")
            counted = client.sql("SELECT count(*) AS n, count(DISTINCT line) AS lines FROM archive")
            assert isinstance(counted, selat.Query)
            (row,) = counted.results().rows()
            assert (row["n"], row["lines"]) == (2 * LINES, LINES)
            client.sql(f"CREATE TABLE wrong ({COLUMNS}) {LINES_CONNECTOR} AT us WITH ('pth' = '/x')")
            with pytest.raises(selat.SelatError, match="there is no option 'pth'"):
                client.sql("SELECT * FROM wrong")

            master.stop()
            stack.enter_context(Member(tmp_path / "master", master_command(tmp_path, address), environment=installed))
            refused(
                client,
                f"CREATE STREAM more ({COLUMNS}, WATERMARK FOR ts)\n{LINES_CONNECTOR} AT us WITH ('pth' = '/x')",
                "there is no option 'pth'",
                (2, 42),
            )
            refused(client, "ALTER STREAM logs AT us SET ('path' = 'app.log')", "option 'path' is 'app.log'", (1, 39))


def test_a_sink_of_another_package_has_each_row_once(tmp_path: Path, installed: dict[str, str]) -> None:
    database, address = tmp_path / "out.db", f"127.0.0.1:{free_port()}"

    def stored() -> int:
        if not database.exists():
            return 0
        with closing(sqlite3.connect(database)) as opened, suppress(sqlite3.OperationalError):
            return int(opened.execute("SELECT count(*) FROM numbers").fetchone()[0])
        return 0

    with ExitStack() as stack:
        stack.enter_context(Member(tmp_path / "master", master_command(tmp_path, address), environment=installed))

        def start() -> Member:
            command = agent_command(tmp_path, address, "us", "eu", "asia")
            return stack.enter_context(Member(tmp_path / "agents", command, environment=installed))

        agents = start()
        with connected(address) as client:
            wait_until(lambda: all(site.state is selat.SiteState.ALIVE for site in client.sites()))
            refused(
                client,
                "CREATE SINK numbers AT us\nWITH ('connector' = 'sqlite', 'path' = '/x', 'tabel' = 'y')",
                "there is no option 'tabel'",
                (2, 46),
            )
            client.sql(f"CREATE STREAM n (id BIGINT, ts TIMESTAMP, WATERMARK FOR ts) WITH ({GENERATED}) AT us, AT eu")
            options = f"'path' = '{database}', 'table' = 'numbers', 'roll_interval' = '100 ms'"
            client.sql(f"CREATE SINK numbers AT us WITH ('connector' = 'sqlite', {options})")
            query = client.sql("INSERT INTO numbers SELECT id, site FROM n")
            assert isinstance(query, selat.Query)
            for least in (ROWS // 8, ROWS // 2):
                wait_until(lambda least=least: stored() >= least)
                agents.kill()
                agents = start()
            wait_until(lambda: query.info().state is selat.QueryState.FINISHED)
    with closing(sqlite3.connect(database)) as opened:
        found = Counter(opened.execute("SELECT id, site FROM numbers"))
        ((commits,),) = opened.execute("SELECT count(*) FROM selat_commits")
    assert found == Counter((n, site) for n in range(ROWS) for site in ("us", "eu"))
    # How many exactly depends on how much a busy machine commits at once.
    assert commits > 1


def refused(client: selat.Client, statement: str, message: str, place: tuple[int, int]) -> None:
    with pytest.raises(selat.StatementError, match=message) as caught:
        client.sql(statement)
    assert (caught.value.line, caught.value.column) == place
