"""Who may make no namespaces is told so; the routers keep to the links then."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

import pytest

import selat
from selat.demo.progress import crossed
from selat.dev.cluster import DevCluster
from selat.dev.processes import ClusterOptions
from tests.e2e.cluster import check_against_oracle, submit
from tests.e2e.dataset import write_dataset
from tests.e2e.queries import CASES
from tests.needs import Lack, Need, skip
from tests.wan.lab import environment, selat_command

NARROW_BYTES_PER_S = 20_000
TOPOLOGY = f"""
gateway: us
sites: {{us: {{slots: 1}}, eu: {{slots: 1}}, asia: {{slots: 1}}}}
default_link: {{bandwidth: {NARROW_BYTES_PER_S * 8 // 1000}kbit/s, latency: 40ms}}
"""
CHOSEN = tuple(c for c in CASES if c.name == "projection")


@pytest.mark.parametrize(
    "command",
    [["wan", "up"], ["wan", "down"], ["wan", "backends"], ["dev", "--netns", "--data", "unused"]],
    ids=" ".join,
)
def test_it_needs_root_and_says_so(command: list[str]) -> None:
    # In a user namespace without a mapping, root is nobody.
    outside = ["unshare", "--user"] if os.geteuid() == 0 else []
    if outside and subprocess.run([*outside, "true"], capture_output=True, check=False).returncode:
        skip(Lack(Need.MACHINE, "a user namespace, in which root is nobody"))
    done = subprocess.run(
        [*outside, *selat_command(*command)], capture_output=True, text=True, env=environment(), check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error[WAN_EMULATION]: an emulated WAN of namespaces needs root\n")
    assert "selat dev --emulate-links" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
@pytest.mark.spark
def test_routers_keep_to_the_links(tmp_path: Path) -> None:
    topology = tmp_path / "topology.yaml"
    topology.write_text(TOPOLOGY)
    dataset = write_dataset(tmp_path / "input")
    options = ClusterOptions(emulate_links=True, allow_paths=(tmp_path,))
    with DevCluster(topology, tmp_path / "data", options) as cluster, selat.connect(cluster.address) as client:
        list(client.script(dataset.ddl()))
        began_s = time.monotonic()
        queries = submit(client, CHOSEN)
        check_against_oracle(dataset, CHOSEN, queries)
        took_s = time.monotonic() - began_s
        links = crossed([query.info() for query in queries.values()])
    assert links
    # Never sooner than the link carries it; how much later is the machine's business.
    assert took_s >= max(link.bytes for link in links) / NARROW_BYTES_PER_S
