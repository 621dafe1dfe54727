"""A sink in a process of its own, killed again and again: in the end each row is there once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.integration.sink_process import CHANNELS, rows
from tests.seeds import random_of, several

pytestmark = pytest.mark.timeout(240)

EPOCHS = several(80, 200)
KILLS = several(5, 12)
SEED = 8


def files(directory: Path) -> list[Path]:
    """Also while the sink takes directories away: os.walk passes over what is gone."""
    return sorted(Path(at, name) for at, _, names in os.walk(directory) for name in names if name.endswith(".parquet"))


def seen(directory: Path) -> list[tuple[str, int, str]]:
    """What a reader of the directory finds."""
    found = []
    for path in files(directory):
        part = path.parent.name.removeprefix("part=")
        table = pq.ParquetFile(path).read()
        found += [(channel, epoch, part) for channel, epoch in zip(*table.to_pydict().values(), strict=True)]
    return sorted(found)


def listed(directory: Path) -> list[Path]:
    """What the manifests say is there; a manifest that is there is whole."""
    manifests = [json.loads(path.read_bytes()) for path in (directory / "_commits").glob("*.json")]
    return sorted(directory / entry["file"] for manifest in manifests for entry in manifest["files"])


@pytest.mark.seeded
def test_kills_lose_and_double_nothing(tmp_path: Path) -> None:
    rng = random_of(SEED)
    out = tmp_path / "out"
    command = [sys.executable, "-m", "tests.integration.sink_process", str(tmp_path), str(EPOCHS)]
    killed = 0
    while killed < KILLS:
        before = len(files(out))
        process = subprocess.Popen(command)
        # Behind a rename that it has just made, or anywhere in the steps that follow.
        while len(files(out)) == before and process.poll() is None:
            time.sleep(0.001)
        time.sleep(rng.uniform(0, 0.03))
        if process.poll() is not None:
            break
        process.kill()
        process.wait()
        killed += 1
        there = seen(out)
        assert len(there) == len(set(there))
        assert set(listed(out)) <= set(files(out))
    subprocess.run(command, check=True, timeout=120)

    assert killed >= KILLS // 2
    tables = (rows(channel, epoch) for channel in CHANNELS for epoch in range(EPOCHS))
    wanted = [tuple(row.values()) for table in tables if table is not None for row in table.to_pylist()]
    assert seen(out) == sorted(wanted)
    assert listed(out) == files(out)
    assert not [name for _, _, names in os.walk(out / "_selat") for name in names if name.endswith(".tmp")]
