from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from planner.batch import Shard, SkipRule, Skips, Task, is_local, locality, may_start

MBIT = 125_000.0
NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_the_example_of_the_source() -> None:
    level = locality([mbit >= 8 for mbit in (12, 9, 3, 20)])
    assert level == 0.75
    starts = {least: may_start(level, Skips(), SkipRule(least=least), NOW) for least in (0.0, 0.5, 0.75, 1.0)}
    assert starts == {0.0: True, 0.5: True, 0.75: True, 1.0: False}


def test_a_job_without_tasks_starts() -> None:
    assert locality([]) == 1.0


def test_a_job_is_skipped_for_so_long_and_no_longer() -> None:
    rule = SkipRule(least=1.0, longest=timedelta(seconds=10))
    skips = Skips().another(NOW).another(NOW + timedelta(seconds=3))
    assert skips == Skips(NOW, 2)
    assert not may_start(0.5, skips, rule, NOW + timedelta(seconds=9))
    assert may_start(0.5, skips, rule, NOW + timedelta(seconds=10))


def test_a_job_is_skipped_so_often_and_no_more() -> None:
    rule = SkipRule(least=1.0, most=2)
    assert not may_start(0.5, Skips(NOW, 1), rule, NOW)
    assert may_start(0.5, Skips(NOW, 2), rule, NOW)


@pytest.mark.parametrize(("site", "local"), [("x", False), ("y", False), ("a", True), ("b", False)])
def test_a_task_is_local_where_all_its_shards_are_near(site: str, local: bool) -> None:
    near = {("x", "a"), ("y", "a"), ("x", "b")}
    task = Task("t", "j", "m", (Shard("x", 1), Shard("y", 1)))

    def bandwidth(source: str, target: str) -> float:
        return (8 if (source, target) in near else 7.9) * MBIT

    assert is_local(task, site, bandwidth, 8 * MBIT) is local
