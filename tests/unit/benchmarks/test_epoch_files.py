from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from benchmarks.epoch_files import EpochFiles


def write(channel: Path, epoch: int, size_bytes: int, at_s: float) -> None:
    """An epoch's file, as a channel has it, of that time."""
    path = channel / f"{epoch:012}.epoch"
    path.write_bytes(bytes(size_bytes))
    os.utime(path, (at_s, at_s))


@pytest.mark.timeout(60)
def test_epochs_are_remembered_when_their_files_are_gone(tmp_path: Path) -> None:
    channel = tmp_path / "sites" / "eu" / "channels" / "q.s1.eu"
    channel.mkdir(parents=True)
    (channel / "consumers.json").write_text("{}")
    for epoch, (size_bytes, at_s) in enumerate([(10, 100.0), (20, 101.0), (40, 104.5)]):
        write(channel, epoch, size_bytes, at_s)
    with EpochFiles(tmp_path) as files:
        while len(files.of("eu", "q.s1.eu")) < 3:
            time.sleep(0.01)
        (channel / f"{0:012}.epoch").unlink()
    assert files.channels("eu") == ["q.s1.eu"]
    assert [file.size_bytes for file in files.of("eu", "q.s1.eu")] == [10, 20, 40]
    assert files.bytes_of("eu", "q.s1.eu", 100.0, 104.5) == 60
    assert files.longest_gap_s("eu", "q.s1.eu", 100.0, 101.0) == 1.0
    assert files.longest_gap_s("eu", "q.s1.eu", 103.0, 104.0) == 3.5
    assert files.longest_gap_s("us", "q.s1.eu", 0.0, 200.0) == 0.0
