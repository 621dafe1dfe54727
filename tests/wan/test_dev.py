"""`selat dev --netns` that is killed: what it left is removed by the next command that may."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from selat.dev.cli import WAN_NAME
from tests.e2e.cluster import wait_until
from tests.needs import skip
from tests.wan.dev import NetnsDev, lack_of_room, netns_dev
from tests.wan.lab import MARKS, devices, leavings

pytestmark = [*MARKS, pytest.mark.spark]


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[NetnsDev]:
    if lacking := lack_of_room():
        skip(lacking)
    with netns_dev(tmp_path) as made:
        yield made


@pytest.mark.parametrize(
    "command",
    [("dev", "stop"), pytest.param(("wan", "down", "--name", WAN_NAME), marks=(pytest.mark.long, pytest.mark.kills))],
    ids=" ".join,
)
def test_nothing_is_left_after_a_kill(dev: NetnsDev, command: tuple[str, ...]) -> None:
    before = devices()
    process = dev.start()
    wait_until(lambda: leavings(WAN_NAME) and len(dev.sites_processes()) >= len(dev.record.layout.sites))
    inside = [psutil.Process(pid) for pid in dev.sites_processes()]
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert "is removed" in dev(*command).stderr
    assert psutil.wait_procs(inside, timeout=10)[1] == []
    assert leavings(WAN_NAME) == []
    assert devices() <= before
