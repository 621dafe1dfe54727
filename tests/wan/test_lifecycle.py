"""Emulated WANs come and go: what is typed changes them, and nothing is left, however they end."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from click.testing import CliRunner

from planner.values.topology import Site, Topology
from selat.cli import cli
from selat.wan.cpu import CpuGroups
from selat.wan.emulation import Emulations, Wish
from selat.wan.errors import WanError
from selat.wan.record import RUN
from tests.e2e.cluster import wait_until
from tests.needs import Lack, Need, skip
from tests.wan.lab import (
    MARKS,
    Lab,
    devices,
    environment,
    lab,
    lack_of,
    leavings,
    namespaces,
    run_selat,
    selat_command,
    topology,
)

pytestmark = MARKS

LINKS = {("us", "eu"): (20.0, 5.0), ("eu", "us"): (10.0, 5.0)}
PROCESS_FILES = {"tun": "delayline.json", "uml-router": "uml/router.json"}
"""Written by a backend once its process is there, before that serves."""
CPUS_PER_SLOT = 0.2


@pytest.fixture(params=PROCESS_FILES)
def backend(request: pytest.FixtureRequest) -> str:
    """One that has a process."""
    name = str(request.param)
    if lacking := lack_of(name):
        skip(lacking)
    return name


@pytest.fixture
def name() -> Iterator[str]:
    """Of a WAN that a test makes by itself."""
    yield "crash"
    Emulations().down("crash")


def start_up(backend: str, name: str) -> subprocess.Popen[str]:
    """`selat wan up`, come so far that the backend's process is there."""
    command = selat_command("wan", "up", "--backend", backend, "--name", name, "--cpus-per-slot", "0.5")
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment())
    wait_until(lambda: (RUN / name / PROCESS_FILES[backend]).exists() or process.poll() is not None)
    return process


@pytest.mark.parametrize("forgotten", [False, True], ids=["", "and-its-files-are-gone"])
def test_what_a_killed_up_left_is_removed(backend: str, name: str, forgotten: bool) -> None:
    before = devices()
    process = start_up(backend, name)
    process.kill()
    process.communicate()
    assert leavings(name)
    if forgotten:
        shutil.rmtree(RUN / name)
    done = run_selat("wan", "down", "--name", name)
    assert (done.returncode, done.stderr) == (0, f"{name} is removed\n")
    assert leavings(name) == []
    wait_until(lambda: devices() <= before)


def test_signals_during_up_leave_nothing(backend: str, name: str) -> None:
    before = devices()
    process = start_up(backend, name)
    while process.poll() is None:
        process.terminate()
        time.sleep(0.01)
    # The interpreter lets go of its handlers at the very end, and is then ended by a signal as any program is.
    assert process.returncode in (128 + signal.SIGTERM, -signal.SIGTERM)
    assert process.communicate()[1] == ""
    assert leavings(name) == []
    assert devices() <= before


def test_a_backend_whose_process_died_is_reported(backend: str) -> None:
    with lab(topology(LINKS), backend, name="gone") as made:
        for process in made.processes_between():
            process.kill()
        wait_until(lambda: "has died" in made.emulations.complaint(made.record))
    assert leavings("gone") == []


def test_a_namespace_that_is_gone_is_reported() -> None:
    with lab(topology(LINKS), "rate-only", name="gone") as made:
        subprocess.run(["ip", "netns", "del", made.record.layout.namespace("eu")], check=True)
        assert made.emulations.complaint(made.record) == "the namespace selat-gone.eu is gone"
    assert leavings("gone") == []


def test_a_wan_is_its_owners() -> None:
    with lab(topology(LINKS), "rate-only", name="mine") as made:
        with pytest.raises(WanError, match="is up"):
            Emulations().up(topology(LINKS), "test", Wish("mine", "rate-only"))
        done = run_selat("wan", "down", "--name", "mine")
        assert done.returncode == 1
        assert "belongs to process" in done.stderr
        assert set(made.record.layout.namespaces) <= set(namespaces())


@pytest.mark.long
@pytest.mark.kills
def test_processes_that_do_not_end_are_killed() -> None:
    with lab(topology(LINKS), "rate-only", name="deaf") as made:
        command = made.inside("us", "sh", "-c", "trap '' TERM; echo; while :; do sleep 0.1; done")
        deaf = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert deaf.stdout is not None
        deaf.stdout.readline()
    assert deaf.wait(10) == -signal.SIGKILL
    assert leavings("deaf") == []


@pytest.fixture(scope="module")
def typed() -> Iterator[Lab]:
    with lab(topology(LINKS), "rate-only", name="typed") as made:
        yield made


def selat(*arguments: str) -> str:
    """What the command prints; it must work."""
    done = CliRunner().invoke(cli, [*arguments, "--name", "typed", "-o", "json"], prog_name="selat")
    assert done.exit_code == 0, done.output
    return done.stdout


def test_what_is_typed_changes_links(typed: Lab) -> None:
    def shown() -> dict[str, object]:
        found: list[dict[str, object]] = [json.loads(line) for line in selat("wan", "status", "--links").splitlines()]
        return next(link for link in found if (link["source"], link["target"]) == ("us", "eu"))

    assert shown()["bandwidth_bytes_per_s"] == 20e6 / 8
    selat("wan", "set", "us->eu", "bandwidth=x0.5", "latency=80ms", "loss=1%")
    assert shown() == {
        "source": "us",
        "target": "eu",
        "bandwidth_bytes_per_s": 10e6 / 8,
        "latency_s": 0.08,
        "jitter_s": 0.0,
        "loss": 0.01,
        "severed": False,
        "changed": True,
    }
    selat("wan", "sever", "us<->eu")
    assert shown()["severed"]
    assert not typed.reaches("us", "eu")
    selat("wan", "heal", "us<->eu")
    assert typed.reaches("us", "eu")


def test_a_killed_site_stays_down_until_it_is_revived(typed: Lab) -> None:
    def states() -> dict[str, str]:
        lines = selat("wan", "status").splitlines()
        return {site["site"]: site["state"] for site in map(json.loads, lines)}

    entrance = typed.emulations.entrance(typed.record, "eu")
    before = subprocess.Popen([*entrance, "sleep", "60"])
    wait_until(lambda: psutil.Process(before.pid).name() == "sleep")
    CliRunner().invoke(cli, ["wan", "kill", "eu", "--name", "typed"], catch_exceptions=False)
    assert before.wait(10) == -signal.SIGKILL
    assert states() == {"us": "up", "eu": "killed"}
    after = subprocess.Popen([*entrance, "echo", "back"], stdout=subprocess.PIPE, text=True)
    with pytest.raises(subprocess.TimeoutExpired):
        after.wait(1)
    CliRunner().invoke(cli, ["wan", "revive", "eu", "--name", "typed"], catch_exceptions=False)
    assert after.communicate(timeout=10)[0] == "back\n"
    assert states() == {"us": "up", "eu": "up"}


def test_a_scenario_is_played(typed: Lab, tmp_path: Path) -> None:
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text(
        """
        - {at: 20s, heal: "us->eu"}
        - {at: 10s, sever: "*->*"}
        - {at: 0s, set: "*->*", bandwidth: x0.25}
        - {at: 30s, kill: eu}
        """
    )
    done = run_selat("wan", "play", str(scenario), "--speed", "20", "--name", "typed")
    assert done.returncode == 0, done.stderr
    first, *told = done.stderr.splitlines()
    assert first == "4 events, 1.5 s"
    assert [line.split(" s  ")[1] for line in told] == [
        "set *->* bandwidth=x0.25",
        "sever *->*",
        "heal us->eu",
        "kill eu",
    ]
    links = typed.emulations.find("typed").links
    assert links["us", "eu"].bandwidth_bytes_per_s == 5e6 / 8
    assert [pair for pair, link in links.items() if link.severed] == [("eu", "us")]
    assert typed.emulations.is_held(typed.record, "eu")


def test_a_rate_needs_a_master(typed: Lab, tmp_path: Path) -> None:
    scenario = tmp_path / "scenario.yaml"
    scenario.write_text("- {at: 0s, rate: clicks, factor: 2}")
    done = run_selat("wan", "play", str(scenario), "--name", "typed", "--master", "127.0.0.1:9")
    assert done.returncode == 5
    assert "no master answers at 127.0.0.1:9" in done.stderr


def test_a_site_is_held_to_its_slots() -> None:
    groups = CpuGroups("held")
    if groups.version is None:
        skip(Lack(Need.MACHINE, "a CPU controller for control groups"))
    wanted = topology(LINKS)
    sites = {"us": Site("us", slots=1), "eu": replace(wanted.sites["eu"], slots=2)}
    with lab(Topology(sites, wanted.links, "us"), "rate-only", name="held", cpus_per_slot=CPUS_PER_SLOT) as made:
        spinners = {
            site: [
                subprocess.Popen([*made.emulations.entrance(made.record, site), "sh", "-c", "while :; do :; done"])
                for _ in range(2)
            ]
            for site in sites
        }
        shares = {site: used_cpus([p.pid for p in found]) for site, found in spinners.items()}
    for site, found in spinners.items():
        assert [p.wait(10) for p in found] == [-signal.SIGTERM] * 2
        # Less is no fault of ours: the machine may have other work.
        assert 0 < shares[site] <= sites[site].slots * CPUS_PER_SLOT * 1.2
    assert leavings("held") == []


def used_cpus(pids: list[int]) -> float:
    """By these processes together, from now on for a while."""

    def used_s() -> float:
        return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids)

    before_s, began_s = used_s(), time.monotonic()
    time.sleep(1.5)
    return (used_s() - before_s) / (time.monotonic() - began_s)
