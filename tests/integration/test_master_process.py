"""The master as a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import stat
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import grpc.aio
import pytest

from selat.v1 import (
    catalog_pb2,
    catalog_pb2_grpc,
    query_pb2,
    query_pb2_grpc,
)
from tests.integration.master_cluster import (
    eventually,
)

pytestmark = pytest.mark.timeout(180)


TOPOLOGY_FILE = """
gateway: hub
sites:
  hub: {slots: 2}
  us: {slots: 1}
default_link: {bandwidth: 100Mbit/s, latency: 50ms}
"""


class Process:
    """`python -m master` in a process of its own."""

    def __init__(self, directory: Path, topology: str = TOPOLOGY_FILE) -> None:
        self.data = directory / "data"
        self.ready = directory / "ready.json"
        self.topology = directory / "topology.yaml"
        self.topology.write_text(topology)

    async def start(
        self,
        listen: str = "127.0.0.1:0",
        environment: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
    ) -> None:
        """`environment` is added to ours, `arguments` to those that it needs."""
        self.ready.unlink(missing_ok=True)
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "master", "--listen", listen, "--data", str(self.data)),
            *("--topology", str(self.topology), "--ready-file", str(self.ready)),
            *arguments,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, **(environment or {})},
        )

    async def address(self) -> str:
        async def there() -> bool:
            return self.ready.exists()

        await eventually(there)
        said = json.loads(self.ready.read_text())
        assert said["pid"] == self.process.pid
        return str(said["address"])

    async def ended(self) -> tuple[int | None, str]:
        async with asyncio.timeout(60):
            _, errors = await self.process.communicate()
        return self.process.returncode, errors.decode()


async def relation_names(address: str) -> list[str]:
    async with grpc.aio.insecure_channel(address) as channel:
        stub = catalog_pb2_grpc.CatalogServiceStub(channel)
        answer = await stub.ListRelations(catalog_pb2.ListRelationsRequest(), wait_for_ready=True, timeout=60)
        return [r.name for r in answer.relations]


async def test_the_process_is_killed_and_takes_up_its_state(tmp_path: Path) -> None:
    master = Process(tmp_path)
    await master.start()
    address = await master.address()
    async with grpc.aio.insecure_channel(address) as channel:
        text = "CREATE TABLE pages (page STRING) AT us WITH ('connector' = 'files', 'path' = '/p', 'format' = 'csv')"
        call = query_pb2_grpc.QueryServiceStub(channel).Execute(query_pb2.ExecuteRequest(text=text))
        assert [r.done async for r in call] == ["table pages created at us"]
    master.process.kill()
    assert (await master.ended())[0] == -signal.SIGKILL
    await master.start(address)
    assert await master.address() == address
    assert await relation_names(address) == ["pages"]
    master.process.terminate()
    code, log = await master.ended()
    assert code == 0
    assert "stopping" in log
    assert "Traceback" not in log


async def test_what_keeps_the_process_from_starting_is_told_in_a_line(tmp_path: Path) -> None:
    master = Process(tmp_path, topology="sites: [")
    await master.start()
    code, said = await master.ended()
    assert code == 1
    assert said.startswith(f"master: topology {master.topology}: it is no YAML")
    assert "Traceback" not in said


@pytest.mark.parametrize("listen", ["0.0.0.0:0", "[::]:0", "nowhere.invalid:0"])
async def test_elsewhere_than_on_loopback_it_listens_only_when_told_so(tmp_path: Path, listen: str) -> None:
    master = Process(tmp_path)
    await master.start(listen)
    code, said = await master.ended()
    assert code == 1
    assert said.startswith(f"master: --listen {listen} is not on loopback")
    assert "--insecure" in said
    assert not master.data.exists()


async def test_its_state_is_closed_to_others_also_what_was_open_before(tmp_path: Path) -> None:
    os.chmod(tmp_path, 0o755)
    master = Process(tmp_path)
    master.data.mkdir(mode=0o755)
    (master.data / "old").write_text("x")
    (master.data / "old").chmod(0o644)
    await master.start()
    await master.address()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (master.data, *master.data.iterdir())}
    assert modes.pop("data") == 0o700
    assert {"old", "master.sqlite", "master.lock"} <= modes.keys()
    assert set(modes.values()) == {0o600}
    master.process.terminate()
    assert (await master.ended())[0] == 0


async def test_a_directory_that_many_share_is_refused(tmp_path: Path) -> None:
    master = Process(tmp_path)
    master.data.mkdir()
    master.data.chmod(0o1777)
    await master.start()
    code, said = await master.ended()
    assert code == 1
    assert said.startswith(f"master: the directory {master.data} is shared by many users")
    assert "Traceback" not in said
