"""Metrics of a master over HTTP, in this process and in one of its own; logs as JSON."""

from __future__ import annotations

import asyncio
import json
import socket
import urllib.error
from pathlib import Path

import pytest

from contract.tasks import TaskState
from machine.metrics import CannotListenError, serving_metrics
from tests.integration.master_cluster import CREATE, eventually, running_cluster
from tests.integration.test_master_process import Process
from tests.needs import unless
from tests.prometheus import LACK, fetched, promtool

pytestmark = pytest.mark.timeout(180)


async def test_a_master_tells_of_its_queries_sites_and_calls(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.execute(CREATE)
        query = await cluster.run()
        await cluster.report("us", TaskState.RUNNING, rows_in=7)
        async with serving_metrics("127.0.0.1:0", cluster.master.metrics.families) as address:
            text = await asyncio.to_thread(fetched, f"http://{address}/metrics")
        lines = text.splitlines()
        assert f'selat_query_state{{query="{query}",state="running"}} 1.0' in lines
        assert f'selat_query_rows_in_total{{query="{query}"}} 7.0' in lines
        assert 'selat_site_up{site="us"} 1.0' in lines
        assert any(
            line.startswith("selat_rpc_duration_seconds_count") and 'method="GetQuery"' in line and 'code="OK"' in line
            for line in lines
        )
        assert any(line.startswith("process_start_time_seconds") for line in lines)


async def test_a_refused_call_is_told_with_its_status(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        with pytest.raises(Exception, match="no query"):
            await cluster.get("q-9999")
        found = cluster.master._calls.read()
    assert found["selat.v1.QueryService", "GetQuery", "NOT_FOUND"].count == 1


@unless(LACK)
async def test_promtool_finds_nothing_wrong(tmp_path: Path) -> None:
    async with running_cluster(tmp_path) as cluster:
        await cluster.execute(CREATE)
        await cluster.run()
        async with serving_metrics("127.0.0.1:0", cluster.master.metrics.families) as address:
            text = await asyncio.to_thread(fetched, f"http://{address}/metrics")
    promtool("check", "metrics", text=text)


async def test_metrics_are_at_one_path() -> None:
    async with serving_metrics("127.0.0.1:0", list) as address:
        with pytest.raises(urllib.error.HTTPError) as refused:
            await asyncio.to_thread(fetched, f"http://{address}/")
    assert refused.value.code == 404
    assert refused.value.read() == b"the metrics are at /metrics\n"


async def test_a_collector_that_fails_fails_the_scrape_alone() -> None:
    def broken() -> list[object]:
        raise ValueError("a defect")

    async with serving_metrics("127.0.0.1:0", broken) as address:  # type: ignore[arg-type]
        for _ in range(2):
            with pytest.raises(urllib.error.HTTPError) as refused:
                await asyncio.to_thread(fetched, f"http://{address}/metrics")
            assert refused.value.code == 500


async def test_a_port_that_is_taken_is_told() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(CannotListenError, match=f"cannot serve metrics at {address}"):
            async with serving_metrics(address, list):
                raise AssertionError("it serves")


async def test_a_process_serves_metrics_where_its_ready_file_says_and_logs_as_json(tmp_path: Path) -> None:
    master = Process(tmp_path)
    await master.start(arguments=("--metrics-listen", "127.0.0.1:0", "--log-format", "json"))
    await master.address()
    metrics = json.loads(master.ready.read_text())["metrics"]
    text = await asyncio.to_thread(fetched, f"http://{metrics}/metrics")
    assert 'selat_site_up{site="us"} 0.0' in text.splitlines()
    master.process.terminate()
    code, log = await master.ended()
    assert code == 0
    lines = [json.loads(line) for line in log.splitlines()]
    assert {"level", "logger", "message", "time"} <= lines[0].keys()
    assert "stopping" in [line["message"] for line in lines]


async def test_metrics_elsewhere_than_on_loopback_need_to_be_asked_for(tmp_path: Path) -> None:
    master = Process(tmp_path)
    await master.start(arguments=("--metrics-listen", "0.0.0.0:0"))
    code, said = await master.ended()
    assert code == 1
    assert said.startswith("master: --metrics-listen 0.0.0.0:0 is not on loopback")


async def test_without_the_option_nothing_is_served(tmp_path: Path) -> None:
    master = Process(tmp_path)
    await master.start()

    async def there() -> bool:
        return master.ready.exists()

    await eventually(there)
    assert "metrics" not in json.loads(master.ready.read_text())
    master.process.terminate()
    assert (await master.ended())[0] == 0
