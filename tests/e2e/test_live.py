"""What a user does with a running cluster: change a rate, lose a site for a while, cancel, look."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version

import pytest

import selat
from tests.e2e.cluster import wait_until
from tests.e2e.dataset import SITES
from tests.e2e.faults import Scene, stopped

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

CLICKS = """
CREATE STREAM clicks (user_id BIGINT, page STRING, ts TIMESTAMP, WATERMARK FOR ts)
  WITH ('connector' = 'generator', 'rows_per_second' = '50', 'column.page' = 'choice(home, cart)')
  AT us, AT eu, AT asia;
"""
PER_PAGE = "SELECT page, window.start AS s, count(*) AS n FROM clicks GROUP BY page, window(ts, '200 milliseconds')"


@pytest.fixture(scope="module")
def clicks(calm: Scene) -> Iterator[None]:
    """The stream, declared."""
    with selat.connect(calm.cluster.address) as client:
        list(client.script(CLICKS))
        yield
        client.drop("clicks")


@pytest.fixture
def query(clicks: None, calm_client: selat.Client) -> Iterator[selat.Query]:
    with running(calm_client) as submitted:
        yield submitted


@contextmanager
def running(client: selat.Client) -> Iterator[selat.Query]:
    """The query, cancelled at the end."""
    submitted = client.sql(PER_PAGE)
    assert isinstance(submitted, selat.Query)
    try:
        yield submitted
    finally:
        submitted.cancel()
        submitted.wait()
    assert submitted.state() is selat.QueryState.CANCELLED


def run(scene: Scene, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The `selat` command as a user runs it, its output piped."""
    return subprocess.run(
        [sys.executable, "-m", "selat", "--master", scene.cluster.address, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_rate_changes_while_the_query_runs(calm_client: selat.Client, query: selat.Query) -> None:
    wait_until(lambda: query.info().rows_out > 0)
    calm_client.sql("ALTER STREAM clicks AT eu SET ('rows_per_second' = '2000')")

    def rate_of(site: str) -> float:
        return max(t.rows_in_per_s for t in query.info().tasks if t.site == site and t.stage_id == "s1")

    wait_until(lambda: rate_of("eu") > 4 * rate_of("asia"))
    windows = [row for row, _ in zip(query.results().rows(), range(40), strict=False)]
    assert len({(row["page"], row["s"]) for row in windows}) == 40, "a window came twice"


@pytest.mark.kills
def test_a_silent_site_is_unreachable_and_nothing_else(isolated: Scene, isolated_client: selat.Client) -> None:
    client = isolated_client
    list(client.script(CLICKS))
    with running(client) as query:
        wait_until(lambda: query.info().rows_out > 0)
        with stopped(isolated.cluster, "agent-asia") as pid:
            wait_until(lambda: client.site("asia").state is selat.SiteState.UNREACHABLE)
            assert query.state() is selat.QueryState.RUNNING
        wait_until(lambda: client.site("asia").state is selat.SiteState.ALIVE)
        rows_out = query.info().rows_out

        wait_until(lambda: query.info().rows_out > rows_out)
        assert isolated.cluster.pids["agent-asia"] == pid
    client.drop("clicks")


def test_bytes_are_told_per_link(query: selat.Query) -> None:
    def links() -> set[tuple[str, str]]:
        return {(link.from_site, link.to_site) for link in query.info().links if link.bytes}

    wait_until(lambda: links() == {("eu", "us"), ("asia", "us")})


def test_explain_names_stages_sites_and_links(calm: Scene, clicks: None) -> None:
    plan = json.loads(run(calm, "-o", "json", "sql", f"EXPLAIN {PER_PAGE}").stdout)

    sites = {stage["id"]: stage["sites"] for stage in plan["stages"]}
    assert sites == {"s1": ["asia", "eu", "us"], "m1": ["us"]}
    assert all(link["bytes_per_s"] > 0 and link["rows_per_s"] > 0 for link in plan["links"])


def test_the_command_line_tells_its_errors_by_exit_code(calm: Scene, clicks: None) -> None:
    refused = run(calm, "sql", "SELECT paeg FROM clicks")
    assert refused.returncode == 3
    assert "paeg" in refused.stderr
    assert run(calm, "sql", "SELECT nope(page) AS x FROM clicks").returncode == 3
    assert run(calm, "query", "show", "q-9999").returncode == 4
    assert run(calm, "query", "list").returncode == 0


def test_what_a_running_query_reads_cannot_be_dropped(calm_client: selat.Client, query: selat.Query) -> None:
    with pytest.raises(selat.SelatError, match=query.id):
        calm_client.sql("DROP STREAM clicks")


def test_every_member_of_a_real_cluster_describes_itself(calm: Scene, calm_client: selat.Client) -> None:
    found = calm_client.members()
    assert found.master.version == selat.__version__
    assert {site.site for site in found.sites} == set(SITES)
    for site in found.sites:
        assert site.member is not None
        assert site.member.packages["pyspark"] == version("pyspark")
        assert int(site.member.java.partition(".")[0]) >= 17
        assert site.member.disk.reason == ""
        # One machine, one clock: the difference is what the measurement cannot tell.
        assert abs(site.clock_ahead) <= site.round_trip


def test_a_query_runs_on_at_a_drained_site_and_a_new_one_is_refused(
    query: selat.Query, calm_client: selat.Client
) -> None:
    drained = calm_client.drain_site("asia")
    try:
        assert ("source", "clicks") in [(w.kind, w.subject) for w in drained.work if w.query_id == query.id]
        with pytest.raises(selat.StatementError, match="but it is draining"):
            calm_client.sql(PER_PAGE)
        before = _rows_in(query, "asia")
        wait_until(lambda: _rows_in(query, "asia") > before)
    finally:
        calm_client.undrain_site("asia")


def _rows_in(query: selat.Query, site: str) -> int:
    return sum(task.rows_in for task in query.info().tasks if task.site == site)
