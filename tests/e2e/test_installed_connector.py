"""A connector of another package, `examples/connector_lines`, installed beside Selat; one of its agents is killed."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import selat
from tests.deploy.tools import ROOT, run
from tests.e2e.cluster import wait_until
from tests.e2e.faults import free_port
from tests.e2e.members import Member, agent_command, connected, master_command

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(300)]

EXAMPLE = ROOT / "examples" / "connector_lines"
START = datetime(2026, 1, 1, tzinfo=UTC)
LINES = 400
WINDOW_S = 10
COLUMNS, LINES_CONNECTOR = "ts TIMESTAMP, line STRING", "WITH ('connector' = 'lines')"
COUNTS = "SELECT window(ts, '10 seconds').start AS start, count(*) AS n FROM logs GROUP BY window(ts, '10 seconds')"


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """The environment of an agent that has the example's package."""
    target = tmp_path / "packages"
    quiet = ("--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation")
    copy = tmp_path / "source"
    copy.mkdir()
    for name in ("pyproject.toml", "selat_connector_lines.py"):
        (copy / name).write_bytes((EXAMPLE / name).read_bytes())
    run(sys.executable, "-m", "pip", "install", *quiet, "--target", str(target), str(copy))
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
        stack.enter_context(Member(tmp_path / "master", master_command(tmp_path, address)))

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
