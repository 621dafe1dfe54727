"""Steps of a query are read from the files of its tasks and channels."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.first_results import Traces


def make(path: Path, at_s: float) -> tuple[Path, float]:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.utime(path, (at_s, at_s))
    return path, at_s


def test_the_last_site_of_a_stage_counts_and_copies_do_not(tmp_path: Path) -> None:
    first, epoch = "000000000000.epoch", "*.epoch"
    seen = dict(
        [
            make(tmp_path / "a" / "us" / "channels" / "q-1.s1.p1" / first, 10.0),
            make(tmp_path / "a" / "eu" / "channels" / "q-1.s1.p0" / first, 12.0),
            make(tmp_path / "a" / "us" / "channels" / "q-1.s1.p0" / first, 13.0),
            make(tmp_path / "a" / "eu" / "channels" / "q-1.s1.p0" / "000000000001.epoch", 16.0),
            make(tmp_path / "a" / "us" / "channels" / "q-1.m1.p0" / first, 14.0),
            make(tmp_path / "a" / "us" / "channels" / "q-10.s1.p1" / first, 15.0),
            make(tmp_path / "a" / "us" / "tasks" / "q-1.s1.p1", 9.0),
            make(tmp_path / "a" / "eu" / "tasks" / "q-1.s1.p0", 8.0),
            make(tmp_path / "a" / "us" / "tasks" / "q-1.m1.p0", 7.0),
        ]
    )
    traces = Traces(tmp_path, seen)
    assert traces.last_s("q-1", "s1", epoch) == 12.0
    assert traces.last_s("q-1", "m1", epoch) == 14.0
    assert traces.last_s("q-1", "s1", "tasks/*") == 9.0
    assert traces.last_s("q-2", "s1", epoch) is None
