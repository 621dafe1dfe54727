"""Client, command and the example framework against a real master: what users see of leases."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import selat
from selat.cli import cli
from selat.cli.base.errors import ExitCode
from selat.cli.commands.lease import describe
from selat.framework import SlotWatch
from selat.leases import Busy, Granted, Refused, Released, Slot, SlotInfo, SlotState
from selat.v1 import lease_pb2
from tests.integration.master_cluster import Cluster, running_cluster

pytestmark = pytest.mark.timeout(60)

PAGE = Path(__file__).parents[2] / "docs" / "leases.md"
EXAMPLE = Path(__file__).parents[2] / "examples" / "third_party_framework.py"
MINUTE = timedelta(minutes=1)
US = Slot("us", 0)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running_cluster(tmp_path / "master") as cluster:
        await asyncio.to_thread(until_all_slots_are_heard, cluster.address)
        yield cluster


def until_all_slots_are_heard(address: str) -> None:
    with selat.connect(address) as client, client.watch_slots() as watch:
        for _ in watch:
            if len(watch.known) == 6 and all(info.reachable for info in watch.known.values()):
                return


def state_of(watch: SlotWatch, slot: Slot, state: SlotState) -> SlotInfo:
    """The slot, once it is in that state."""
    while watch.known[slot].state is not state:
        next(watch)
    return watch.known[slot]


async def test_a_client_takes_keeps_and_gives_back(cluster: Cluster) -> None:
    def use() -> None:
        with selat.connect(cluster.address) as client, client.watch_slots() as watch:
            next(watch)
            batch, other = client.register_framework("nightly"), client.register_framework("other")
            (granted,) = batch.acquire({US: MINUTE})
            assert isinstance(granted, Granted)
            assert state_of(watch, US, SlotState.LEASED).lease == granted.lease
            (busy,) = other.acquire({US: MINUTE})
            assert isinstance(busy, Busy)
            assert (busy.info.holder, busy.info.free_by) == ("nightly", granted.lease.grace_ends_at)
            (renewed,) = batch.renew([granted.lease], 2 * MINUTE)
            assert isinstance(renewed, Granted)
            assert renewed.lease.expires_at - granted.lease.expires_at == MINUTE
            assert batch.release([granted.lease]) == [Released(US)]
            assert state_of(watch, US, SlotState.FREE).holder == ""
            (stale,) = batch.release([granted.lease])
            assert isinstance(stale, Refused)
            assert stale.reason == "stale_fencing"

    await asyncio.to_thread(use)


async def test_a_client_that_waits_gets_the_slot_when_it_comes(cluster: Cluster) -> None:
    def use() -> None:
        with selat.connect(cluster.address) as client:
            batch, other = client.register_framework("nightly"), client.register_framework("other")
            (granted,) = batch.acquire({US: MINUTE})
            assert isinstance(granted, Granted)
            assert other.wait_for([US], MINUTE, within=timedelta(milliseconds=50)) is None
            refused = other.wait_for([Slot("mars", 0)], MINUTE)
            assert isinstance(refused, Refused)
            assert refused.reason == "unknown_slot"
            # Another slot of the list is free, so it is offered at once.
            lease = other.wait_for([US, Slot("eu", 1)], MINUTE)
            assert not isinstance(lease, Refused)
            assert lease is not None
            assert (lease.slot, lease.holder) == (Slot("eu", 1), "other")

    await asyncio.to_thread(use)


async def test_the_command_lists_slots_and_frameworks(cluster: Cluster) -> None:
    def use() -> None:
        run = CliRunner()

        def output(*arguments: str, code: int = 0) -> str:
            result = run.invoke(cli, ["--master", cluster.address, *arguments], prog_name="selat")
            assert result.exit_code == code, result.output
            return result.output

        output("framework", "register", "nightly", "--comment", "nightly")
        with selat.connect(cluster.address) as client:
            client.register_framework("nightly").acquire({US: MINUTE})
        (held,) = map(json.loads, output("lease", "list", "--held").splitlines())
        assert (held["slot"], held["holder"], held["fencing"], held["state"]) == ("us/0", "nightly", 1, "leased")
        table = output("lease", "list", "--site", "us", "-o", "table").splitlines()
        assert table[1].split()[:4] == ["us/0", "leased", "nightly", "1"]
        assert table[2].split()[:2] == ["us/1", "free"]
        (batch,) = map(json.loads, output("framework", "quota", "nightly", "3").splitlines())
        assert (batch["quota"], batch["held"], batch["comment"]) == (3, 1, "nightly")
        assert "nightly" in output("framework", "list", "-o", "table")
        assert json.loads(output("framework", "quota", "nightly", "none"))["quota"] is None
        assert "no framework 'nobody'" in output("framework", "quota", "nobody", "1", code=ExitCode.NOT_FOUND.value)
        assert "is no quota" in output("framework", "quota", "nightly", "many", code=ExitCode.USAGE.value)
        assert "not written as csv" in output("lease", "watch", "-o", "csv", code=ExitCode.USAGE.value)

    await asyncio.to_thread(use)


async def test_the_command_watches(cluster: Cluster) -> None:
    watching = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "selat", "--master", cluster.address, "lease", "watch", "--site", "us", "-o", "json"),
        stdout=asyncio.subprocess.PIPE,
    )
    assert watching.stdout is not None
    try:
        first = [json.loads(await watching.stdout.readline()) for _ in range(2)]
        assert [slot["slot"] for slot in first] == ["us/0", "us/1"]
        await asyncio.to_thread(take_one, cluster.address)
        changed = json.loads(await watching.stdout.readline())
        assert (changed["slot"], changed["holder"]) == ("us/0", "nightly")
    finally:
        watching.kill()
        await watching.wait()


def take_one(address: str) -> None:
    with selat.connect(address) as client:
        client.register_framework("nightly").acquire({US: MINUTE})


async def test_the_example_framework_counts_every_file_and_gives_all_slots_back(
    cluster: Cluster, tmp_path: Path
) -> None:
    files = [tmp_path / f"{number}.txt" for number in range(8)]
    for number, file in enumerate(files):
        file.write_text("word " * number)
    example = await asyncio.create_subprocess_exec(
        *(sys.executable, str(EXAMPLE), "--master", cluster.address, "--prefer", "eu", *map(str, files)),
        stdout=asyncio.subprocess.PIPE,
    )
    output, _ = await example.communicate()
    assert example.returncode == 0
    lines = sorted(output.decode().splitlines())
    assert [line.split(" words, at ")[0] for line in lines] == [f"{file}: {n}" for n, file in enumerate(files)]
    assert lines[0].endswith("eu/0")
    assert await asyncio.to_thread(all_free, cluster.address)


def all_free(address: str) -> bool:
    with selat.connect(address) as client:
        return all(info.state is SlotState.FREE for info in client.slots())


async def test_the_page_on_leases_does_what_it_says(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    monkeypatch.setenv("SELAT_MASTER", cluster.address)
    names: dict[str, Any] = {}
    await asyncio.to_thread(exec, compile(block, str(PAGE), "exec"), names)
    assert names["lease"].slot == US


def test_the_page_on_leases_lists_every_state_and_reason() -> None:
    text = PAGE.read_text()
    assert [
        state.value for state in SlotState if state is not SlotState.UNKNOWN and f"| `{state.value}` |" not in text
    ] == []
    names = [name.removeprefix("REFUSAL_REASON_").lower() for name in lease_pb2.RefusalReason.DESCRIPTOR.values_by_name]
    assert [name for name in names[1:] if f"`{name}`" not in text] == []


def test_the_example_is_short() -> None:
    assert len(EXAMPLE.read_text().splitlines()) < 100


def test_a_slot_that_is_not_heard_says_so() -> None:
    info = SlotInfo(US, SlotState.FREE, None, 2, "", None, reachable=False)
    assert describe(info) == "us/0: free, 2 waiting, site not heard"


@pytest.mark.parametrize("text", ["", "us", "/1", "us/", "us/x", "us/-1", "us/9999999999"])
def test_what_names_no_slot(text: str) -> None:
    with pytest.raises(selat.InvalidArgument):
        Slot.parse(text)


def test_a_slot_is_written_as_it_is_read() -> None:
    assert str(Slot.parse("a/b/3")) == "a/b/3"
