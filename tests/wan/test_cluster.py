"""Three regions in namespaces: real processes and Spark, a link cut and healed, a site killed, results exact."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

import selat
from planner.values.quantities import bandwidth_of
from selat.client.links import LinkView, ProbeMethod
from selat.dev.cli import WAN_NAME
from selat.wan.cpu import CpuGroups
from selat.wan.emulation import Emulations
from selat.wan.shaping import PAYLOAD_RATIO
from tests.e2e.cluster import check_against_oracle, submit, wait_until
from tests.e2e.dataset import Dataset, write_dataset
from tests.e2e.queries import CASES
from tests.needs import Lack, Need, skip
from tests.wan.dev import NetnsDev, lack_of_room, netns_dev
from tests.wan.lab import MARKS, devices, environment, leavings, selat_command

pytestmark = [*MARKS, pytest.mark.spark, pytest.mark.timeout(600)]

CHOSEN = tuple(c for c in CASES if c.name in ("projection", "all_aggregates", "join"))
CPUS_PER_SLOT = 1.5
"""Not one: Spark's start would take longer."""
FETCH = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=30).read().decode())"
TICKS = """
CREATE STREAM ticks (id BIGINT, ts TIMESTAMP, WATERMARK FOR ts)
  WITH ('connector' = 'generator', 'rows_per_second' = '4') AT us, AT asia;
"""
SCENARIO = """
- {at: 0s, sever: "us<->asia"}
- {at: 0s, set: "us<->eu", bandwidth: 20Mbit/s}
- {at: 1s, kill: eu}
- {at: 2s, rate: ticks, factor: 2.5}
- {at: 3s, revive: eu}
- {at: 8s, heal: "us<->asia"}
"""


@dataclass(frozen=True, slots=True)
class Scene:
    dev: NetnsDev
    dataset: Dataset
    devices_before: set[str]

    def state_of(self, client: selat.Client, site: str) -> selat.SiteState:
        return next(s.state for s in client.sites() if s.name == site)


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    if lacking := lack_of_room():
        skip(lacking)
    directory: Path = tmp_path_factory.mktemp("wan")
    dataset = write_dataset(directory / "input")
    before = devices()
    limit = ["--cpus-per-slot", str(CPUS_PER_SLOT)] if CpuGroups(WAN_NAME).version is not None else []
    with netns_dev(directory) as dev:
        started = dev(*dev.command("--detach", "--metrics", *limit))
        assert started.returncode == 0, started.stderr
        yield Scene(dev, dataset, before)


def test_the_master_knows_the_links(scene: Scene) -> None:
    declared_bytes_per_s = bandwidth_of("100Mbit/s")
    assert declared_bytes_per_s is not None
    with selat.connect(scene.dev.address) as client:
        result = client.probe_link("us", "eu")
        assert result.method is ProbeMethod.IPERF3
        # How near the probe comes is the business of its own tests; that it measured this link, ours. A router that
        # waits for a CPU carries less than the link has.
        assert 0.2 < result.bytes_per_s / (declared_bytes_per_s * PAYLOAD_RATIO) < 1.3

        def link() -> LinkView:
            return next(v for v in client.links() if (v.from_site, v.to_site) == ("us", "eu"))

        wait_until(lambda: link().rtt is not None, 30)
        rtt = link().rtt
        assert rtt is not None
        assert rtt.total_seconds() >= 0.080


def test_metrics_of_all_processes_are_served_in_the_namespaces(scene: Scene) -> None:
    """One of them is where Prometheus has to run: the machine itself does not reach the others."""
    layout = scene.dev.record.layout
    found = json.loads(scene.dev.data.metrics_targets.read_text())
    jobs = {entry["labels"]["job"]: 0 for entry in found}
    for entry in found:
        (target,) = entry["targets"]
        fetch = [sys.executable, "-c", FETCH, f"http://{target}/metrics"]
        inside = ["ip", "netns", "exec", layout.namespace(layout.gateway), *fetch]
        said = subprocess.run(inside, capture_output=True, text=True, check=False, timeout=60)
        assert "# TYPE selat_" in said.stdout, said.stderr
        jobs[entry["labels"]["job"]] += 1
    assert jobs == {"selat-master": 1, "selat-agent": len(layout.sites)}
    status = scene.dev("dev", "status", "--data", str(scene.dev.data.root)).stdout
    assert all(entry["targets"][0] in status for entry in found)


def test_sites_are_held_to_their_slots(scene: Scene) -> None:
    groups = CpuGroups(WAN_NAME)
    if groups.version is None:
        skip(Lack(Need.MACHINE, "a CPU controller for control groups"))
    emulations, record = Emulations(), scene.dev.record
    for site in record.layout.sites:
        inside = set(emulations.processes(record, site))
        assert any(psutil.Process(pid).name() == "java" for pid in inside)
        held = {int(pid) for pid in (groups.directory(site) / "cgroup.procs").read_text().split()}
        assert inside <= held


def test_results_are_exact_while_a_scenario_cuts_links_and_kills_a_site(scene: Scene, tmp_path: Path) -> None:
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(SCENARIO)
    with selat.connect(scene.dev.address) as client:
        list(client.script(scene.dataset.ddl()))
        list(client.script(TICKS))
        queries = submit(client, CHOSEN)
        command = selat_command("wan", "play", str(scenario), "--name", WAN_NAME, "--master", scene.dev.address)
        player = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment())
        wait_until(lambda: scene.dev.record.links["us", "asia"].severed)
        assert any(query.state() is selat.QueryState.RUNNING for query in queries.values())
        check_against_oracle(scene.dataset, CHOSEN, queries)
        said = player.communicate(timeout=60)[1]
        assert player.returncode == 0, said
        rates = {b.site: b.options["rows_per_second"] for b in client.stream("ticks").bindings}
        assert rates == {"us": "10", "asia": "10"}
        wait_until(lambda: scene.state_of(client, "eu") is selat.SiteState.ALIVE, 180)
    links = scene.dev.record.links
    assert links["eu", "us"].bandwidth_bytes_per_s == bandwidth_of("20Mbit/s")
    assert not any(link.severed for link in links.values())


def test_signals_during_the_stop_leave_nothing(scene: Scene) -> None:
    state = scene.dev.data.running()
    assert state is not None
    inside = [psutil.Process(pid) for pid in scene.dev.sites_processes()]
    supervisor = psutil.Process(state.supervisor.pid)
    while supervisor.is_running() and supervisor.status() != psutil.STATUS_ZOMBIE:
        supervisor.terminate()
        time.sleep(0.2)
    assert psutil.wait_procs(inside, timeout=10)[1] == []
    assert leavings(WAN_NAME) == []
    assert devices() <= scene.devices_before
