"""A whole cluster in an emulated WAN: real processes and Spark in namespaces, a link cut and healed, results exact."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import yaml

import selat
from planner.topology import parse_topology
from selat.dev.cluster import ClusterOptions, DevCluster
from selat.links import ProbeMethod
from selat.wan.links import LinkChange
from selat.wan.placement import InNamespaces
from tests.e2e.cluster import check_against_oracle, submit, wait_until
from tests.e2e.dataset import Dataset, write_dataset
from tests.e2e.queries import CASES
from tests.wan.lab import Lab, lab, what_is_missing

MISSING = what_is_missing()
pytestmark = [
    pytest.mark.wan,
    pytest.mark.spark,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(MISSING), reason=f"network namespaces: {MISSING}"),
]

TOPOLOGY = """
gateway: us
sites: {us: {slots: 1}, eu: {slots: 1}, asia: {slots: 1}}
links:
  - {from: us, to: eu, bandwidth: 20Mbit/s, latency: 20ms, both: true}
  - {from: us, to: asia, bandwidth: 10Mbit/s, latency: 40ms, both: true}
  - {from: eu, to: asia, bandwidth: 8Mbit/s, latency: 60ms, both: true}
"""
CHOSEN = tuple(c for c in CASES if c.name in ("projection", "all_aggregates", "join", "top_k"))
SEVERED_S = 8.0


@dataclass(frozen=True, slots=True)
class Scene:
    lab: Lab
    cluster: DevCluster
    dataset: Dataset


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    directory = tmp_path_factory.mktemp("wan")
    topology = directory / "topology.yaml"
    topology.write_text(TOPOLOGY)
    dataset = write_dataset(directory / "input")
    with lab(parse_topology(yaml.safe_load(TOPOLOGY)), "tun", name="whole") as made:
        options = ClusterOptions(placement=InNamespaces(made.emulations, made.record))
        with DevCluster(topology, directory / "data", options) as cluster:
            yield Scene(made, cluster, dataset)


def test_results_are_exact_while_a_link_is_cut_and_healed(scene: Scene) -> None:
    emulations, name = scene.lab.emulations, scene.lab.name
    with selat.connect(scene.cluster.address) as client:
        list(client.script(scene.dataset.ddl()))
        queries = submit(client, CHOSEN)
        emulations.change(name, dict.fromkeys([("asia", "us"), ("us", "asia")], LinkChange(severed=True)))
        heal = threading.Timer(
            SEVERED_S,
            emulations.change,
            (name, dict.fromkeys([("asia", "us"), ("us", "asia")], LinkChange(severed=False))),
        )
        heal.start()
        try:
            check_against_oracle(scene.dataset, CHOSEN, queries)
        finally:
            heal.join()


def test_the_master_knows_the_links(scene: Scene) -> None:
    with selat.connect(scene.cluster.address) as client:
        result = client.probe_link("us", "eu")
        assert result.method is ProbeMethod.IPERF3
        assert result.bytes_per_s * 8 / 1e6 == pytest.approx(20 * 0.956, rel=0.15)

        def round_trip_known() -> bool:
            return (
                next(link for link in client.links() if (link.from_site, link.to_site) == ("us", "eu")).rtt is not None
            )

        wait_until(round_trip_known, 30)
        link = next(link for link in client.links() if (link.from_site, link.to_site) == ("us", "eu"))
        assert link.rtt is not None
        assert link.rtt.total_seconds() == pytest.approx(0.040, abs=0.02)


def test_a_killed_site_comes_back_when_it_is_revived(scene: Scene) -> None:
    emulations, record = scene.lab.emulations, scene.lab.record
    with selat.connect(scene.cluster.address) as client:

        def state() -> selat.SiteState:
            return next(site.state for site in client.sites() if site.name == "asia")

        assert emulations.kill(record, "asia") > 0
        wait_until(lambda: state() is selat.SiteState.UNREACHABLE, 60)
        time.sleep(2)
        assert not emulations.processes(record, "asia")
        emulations.revive(record, "asia")
        wait_until(lambda: state() is selat.SiteState.ALIVE, 180)
