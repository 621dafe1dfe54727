"""A real Prometheus scrapes a cluster in which a query runs: every expression of dashboards and alerts answers."""

from __future__ import annotations

import json
import runpy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import selat
from planner.graph.ids import TaskId
from selat.dev.cluster import DevCluster
from selat.dev.processes import ClusterOptions
from tests.e2e.cluster import wait_until
from tests.jvm import AGENT_ARGUMENTS
from tests.needs import unless
from tests.prometheus import LACK, ROOT, Server, fetched, prometheus, promtool

pytestmark = [pytest.mark.e2e, pytest.mark.spark, unless(LACK)]

TOPOLOGY = """
gateway: us
currency: USD
sites:
  us: {slots: 1, label: Virginia, location: {lat: 38.9, lon: -77.4}}
  eu: {slots: 1}
default_link: {bandwidth: 50Mbit/s, latency: 40ms, price_per_gb: 0.02}
"""

VISITS = (
    "CREATE STREAM visits (id BIGINT, page STRING, ts TIMESTAMP, WATERMARK FOR ts) "
    "WITH ('connector' = 'generator', 'rows_per_second' = '200') AT us, AT eu"
)
COUNT = "SELECT page, count(*) AS n FROM visits GROUP BY page, window(ts, '2 seconds')"

SCRAPES = 8
"""Enough for a rate over `RANGE`, and for what is told with the next report."""
RANGE = "30s"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    root = tmp_path_factory.mktemp("metrics")
    topology = root / "topology.yaml"
    topology.write_text(TOPOLOGY)
    options = ClusterOptions(
        agent_arguments=(*AGENT_ARGUMENTS, "--log-format", "json"),
        master_arguments=("--log-format", "json"),
        metrics=True,
    )
    with DevCluster(topology, root / "data", options) as running:
        yield running


@pytest.fixture(scope="module")
def query(cluster: DevCluster) -> Iterator[selat.Query]:
    with selat.connect(cluster.address) as client:
        client.sql(VISITS)
        made = client.sql(COUNT, name="counted")
        assert isinstance(made, selat.Query)
        wait_until(lambda: made.info().rows_out > 0 and made.info().wan_bytes > 0, 120)
        yield made
        made.cancel()


@pytest.fixture(scope="module")
def server(cluster: DevCluster, query: selat.Query, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with prometheus(tmp_path_factory.mktemp("prometheus"), cluster.data.metrics_targets) as running:
        counted = f"count_over_time(selat_task_rows_in_total{{query={json.dumps(query.id)}}}[5m])"
        wait_until(lambda: _least(running.query(counted)) >= SCRAPES, 120)
        yield running


def _least(series: list[dict[str, Any]]) -> float:
    return min((float(one["value"][1]) for one in series), default=0.0)


def test_all_members_are_scraped(server: Server) -> None:
    assert {one["metric"]["job"] for one in server.query("up == 1")} == {"selat-master", "selat-agent"}
    assert server.query("up == 0") == []
    assert {one["metric"]["site"] for one in server.query("selat_agent_ready == 1")} == {"us", "eu"}


def test_every_expression_of_every_dashboard_answers(server: Server) -> None:
    boards = runpy.run_path(str(ROOT / "scripts" / "make_dashboards.py"))["BOARDS"]
    empty = []
    for board in boards:
        for panel in board.panels:
            for curve in panel.curves:
                expression = curve.expr.replace("$__rate_interval", RANGE)
                for variable in board.variables:
                    expression = expression.replace(f"${variable}", ".*")
                if not server.query(expression) and not curve.sparse:
                    empty.append(f"{board.name}: {panel.title}: {expression}")
    assert empty == []


def test_the_price_of_what_crossed_is_there(server: Server, query: selat.Query) -> None:
    expression = f"selat_query_wan_cost_total{{query={json.dumps(query.id)}, currency='USD'}} > 0"
    assert len(server.query(expression)) == 1
    info = query.info()
    assert info.input_bytes > 0
    assert info.wan_cost == pytest.approx(info.wan_bytes * 0.02 / 1e9)


def test_every_alert_is_evaluated(server: Server) -> None:
    wait_until(lambda: all(rule["health"] != "unknown" for rule in server.rules()))
    assert [(rule["name"], rule.get("lastError", "")) for rule in server.rules() if rule["health"] != "ok"] == []
    names = {rule["name"] for rule in server.rules() if rule["state"] == "firing"}
    assert names <= {"WatermarkStalled"}


def test_promtool_finds_nothing_wrong_with_what_members_serve(cluster: DevCluster, query: selat.Query) -> None:
    for target in json.loads(cluster.data.metrics_targets.read_text()):
        promtool("check", "metrics", text=fetched(f"http://{target['targets'][0]}/metrics"))


def test_logs_are_objects_with_the_ids_of_the_metrics(cluster: DevCluster, query: selat.Query) -> None:
    master = _lines(cluster.data.logs / "master.log")
    assert {"query": query.id, "now": "running"}.items() <= _first(master, "query state", now="running").items()
    agents = _lines(cluster.data.logs / "agents.log")
    started = _first(agents, "task started", query=query.id)
    assert started["site"] in ("us", "eu")
    assert TaskId.parse(started["task"]).query == query.id
    assert started["task"].startswith(f"{query.id}.{started['stage']}.p")


def _lines(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]


def _first(lines: list[dict[str, Any]], message: str, **fields: str) -> dict[str, Any]:
    return next(one for one in lines if one["message"].startswith(message) and fields.items() <= one.items())
