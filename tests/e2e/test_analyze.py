"""EXPLAIN ANALYZE on a query that runs at three sites."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

import selat
from tests.e2e.cluster import wait_until
from tests.e2e.faults import Scene

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

VISITS = """
CREATE STREAM visits (user_id BIGINT, page STRING, ts TIMESTAMP, WATERMARK FOR ts)
  WITH ('connector' = 'generator', 'rows_per_second' = '50', 'column.page' = 'choice(home, cart)')
  AT us, AT eu WITH ('rows_per_second' = '500'), AT asia;
"""
HOME = "SELECT page, count(*) AS n FROM visits WHERE page = 'home' GROUP BY page, window(ts, '1 second')"


def test_every_part_is_measured_while_it_runs(calm: Scene, calm_client: selat.Client) -> None:
    list(calm_client.script(VISITS))
    query = calm_client.sql(HOME, name="home")
    assert isinstance(query, selat.Query)
    wait_until(lambda: query.info().rows_out > 0 and all(t.rows_in for t in query.info().tasks), timeout_s=120)
    wait_until(lambda: len(query.info().links) == 2, timeout_s=60)
    outcome = calm_client.sql("EXPLAIN ANALYZE QUERY home")
    assert isinstance(outcome, selat.Explanation)
    _check(json.loads(outcome.json))
    assert "operators fused in it" in outcome.text
    arguments = ("query", "explain", "home", "--analyze", "--json")
    command = [sys.executable, "-m", "selat", "--master", calm.cluster.address, *arguments]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    _check(json.loads(printed))
    query.cancel()
    query.wait()
    calm_client.drop("visits")


def _check(measured: dict[str, Any]) -> None:
    source, merge = measured["stages"]
    assert [task["site"] for task in source["tasks"]] == ["asia", "eu", "us"]
    for task in source["tasks"]:
        chain = {o["operator"]: o["rows_out"] for o in task["operators"]}
        assert 0 < chain["Aggregate"] <= chain["Filter"] < task["rows_in"], task
        assert task["bytes_out"] > 0
        assert task["busy_ratio"] > 0
        assert task["watermark_delay_s"] is not None
    assert source["spread"]["rows_in_per_s_max"] > source["spread"]["rows_in_per_s_min"]
    assert merge["spread"] is None
    (task,) = merge["tasks"]
    assert task["rows_out"] > 0
    # There is one page.
    assert task["busiest_bin_ratio"] == 1.0
    links = {(link["from"], link["to"]): link for link in measured["links"]}
    assert set(links) == {("asia", "us"), ("eu", "us")}
    assert all(link["bytes"] > 0 and link["expected_bytes_per_s"] > 0 for link in links.values())
    assert measured["result"]["rows"] > 0
