"""`selat dev --netns` that is killed: what it left is removed by the next command that may."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from selat.dev.cli import WAN_NAME
from tests.e2e.cluster import wait_until
from tests.wan.dev import NetnsDev, netns_dev, why_not
from tests.wan.lab import devices, leavings, what_is_missing

MISSING = what_is_missing()
pytestmark = [
    pytest.mark.wan,
    pytest.mark.spark,
    pytest.mark.skipif(bool(MISSING), reason=f"network namespaces: {MISSING}"),
]


@pytest.fixture
def dev(tmp_path: Path) -> Iterator[NetnsDev]:
    if reason := why_not():
        pytest.skip(reason)
    with netns_dev(tmp_path) as made:
        yield made


@pytest.mark.parametrize(
    "command",
    [("dev", "stop"), pytest.param(("wan", "down", "--name", WAN_NAME), marks=pytest.mark.long)],
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
