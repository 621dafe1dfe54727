from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from planner.failures.crashes import EPOCHS_ALONE, Ending
from site_agent.tasks.crashes import Crashes
from site_agent.tasks.marks import Marks, marked

pytestmark = pytest.mark.timeout(20)


def die(directory: Path, *tasks: str, ending: Ending | None = Ending.HEAP, completing: Iterable[str] = ()) -> None:
    """A life of a process that completes some epochs, and ends in those of `tasks`."""
    crashes = Crashes(directory)
    for task in completing:
        crashes.completed(task)
    (found,) = directory.glob("running-*")
    under_way = Marks(found)
    for task in tasks:
        under_way.set(task)
    under_way.close()
    if ending is not None:
        crashes.told(ending)


async def began(crashes: Crashes, task: str) -> tuple[asyncio.Event, asyncio.Task[None]]:
    """An epoch that lasts until the event is set; returned when it is under way, or waits."""
    end = asyncio.Event()

    async def epoch() -> None:
        async with crashes.running(task):
            await end.wait()

    running = asyncio.create_task(epoch())
    for _ in range(5):
        await asyncio.sleep(0)
    return end, running


def marks(directory: Path) -> list[str]:
    (found,) = directory.glob("running-*")
    return sorted(marked(found))


async def test_epochs_under_way_are_on_disk(tmp_path: Path) -> None:
    crashes = Crashes(tmp_path)
    async with crashes.running("a"), crashes.running("b"):
        assert marks(tmp_path) == ["a", "b"]
    assert marks(tmp_path) == []


def test_a_task_fails_that_ran_out_of_heap_three_times_at_last_alone(tmp_path: Path) -> None:
    for _ in range(2):
        die(tmp_path, "a", "b")
        assert Crashes(tmp_path).why_failed("a", "eu") == ""
    die(tmp_path, "a")

    last = Crashes(tmp_path, heap="1g")
    assert last.why_failed("a", "eu").startswith("the heap of site eu (1g) was too small 3 times in a row")
    assert last.why_failed("b", "eu") == ""
    assert "2 times in a row" in last.why_waiting("b")
    # It stays so, until the task is gone.
    assert Crashes(tmp_path).why_failed("a", "eu")
    Crashes(tmp_path).forget("a")
    assert Crashes(tmp_path).why_failed("a", "eu") == ""


def test_an_epoch_in_between_clears_a_task(tmp_path: Path) -> None:
    for _ in range(3):
        die(tmp_path, "a", "b", completing=["a"])
    assert Crashes(tmp_path).why_waiting("a") == ""
    assert Crashes(tmp_path).why_waiting("b")


async def test_a_process_that_was_asked_to_end_blames_nobody(tmp_path: Path) -> None:
    crashes = Crashes(tmp_path)
    async with crashes.running("a"):
        crashes.stop()
        async with crashes.running("b"):
            assert not list(tmp_path.glob("running-*"))

    die(tmp_path, "a")
    assert Crashes(tmp_path).why_waiting("a") == ""


def test_a_start_that_dies_does_not_count_a_death_twice(tmp_path: Path) -> None:
    die(tmp_path, "a")
    for _ in range(5):
        assert Crashes(tmp_path).why_waiting("a") == ""


async def test_a_suspect_runs_alone_and_others_after_it(tmp_path: Path) -> None:
    die(tmp_path, "a", "b")
    die(tmp_path, "a", "b")
    crashes = Crashes(tmp_path)
    end_c, c = await began(crashes, "c")
    end_a, a = await began(crashes, "a")
    end_d, d = await began(crashes, "d")
    assert marks(tmp_path) == ["c"]
    end_c.set()
    await c
    await asyncio.sleep(0)
    assert marks(tmp_path) == ["a"]
    end_a.set()
    await a
    await asyncio.sleep(0)
    assert marks(tmp_path) == ["d"]
    end_d.set()
    await d


async def test_a_suspect_that_is_stopped_while_it_waits_is_in_nobodys_way(tmp_path: Path) -> None:
    die(tmp_path, "a")
    die(tmp_path, "a")
    crashes = Crashes(tmp_path)
    end_c, c = await began(crashes, "c")
    _, a = await began(crashes, "a")
    a.cancel()
    end_d, d = await began(crashes, "d")
    assert marks(tmp_path) == ["c", "d"]
    end_c.set()
    end_d.set()
    await asyncio.gather(c, d)


async def test_a_suspect_goes_on_alone_for_a_while(tmp_path: Path) -> None:
    """Perhaps it is two together that need too much."""
    die(tmp_path, "a")
    die(tmp_path, "a")
    crashes = Crashes(tmp_path)
    for _ in range(EPOCHS_ALONE):
        async with crashes.running("a"):
            end, b = await began(crashes, "b")
            assert marks(tmp_path) == ["a"]
            end.set()
        await b
        crashes.completed("a")
        assert crashes.why_waiting("a") == ""
    async with crashes.running("a"), crashes.running("b"):
        assert marks(tmp_path) == ["a", "b"]


def test_a_death_without_a_word_is_a_silent_one(tmp_path: Path) -> None:
    for _ in range(6):
        assert Crashes(tmp_path).why_failed("a", "eu") == ""
        die(tmp_path, "a", ending=None)
    assert Crashes(tmp_path).why_failed("a", "eu").startswith("the agent of site eu was killed 6 times in a row")


def test_a_damaged_record_blames_nobody(tmp_path: Path) -> None:
    for _ in range(2):
        die(tmp_path, "a")
    (tmp_path / "state.json").write_text('{"life": 3, "suspicions": {"a": {}}}')
    assert Crashes(tmp_path).why_waiting("a") == ""
    die(tmp_path, "a")
    assert Crashes(tmp_path).why_failed("a", "eu") == ""


async def test_without_a_directory_nothing_is_kept() -> None:
    crashes = Crashes()
    async with crashes.running("a"):
        crashes.told(Ending.HEAP)
    crashes.completed("a")
    crashes.stop()
    assert crashes.why_failed("a", "eu") == ""


async def test_where_nothing_can_be_written_tasks_run_and_are_not_suspected(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    crashes = Crashes(tmp_path / "file" / "crashes")
    async with crashes.running("a"):
        pass
    crashes.completed("a")
    crashes.told(Ending.HEAP)
    crashes.stop()
    assert crashes.why_failed("a", "eu") == ""
