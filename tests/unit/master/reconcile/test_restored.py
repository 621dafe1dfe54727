"""A master whose state was restored: nothing is given out before the sites have said what still runs."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from contract.tasks import TaskState
from master.backup import back_up, restore
from master.base.errors import NotSettledError
from master.records.model import QueryState
from master.store.sqlite import SqliteStore
from tests.unit.master.world import CONFIG, World

US = (("pages", TaskState.ENDED), ("clicks", TaskState.RUNNING))
EU = (("clicks", TaskState.RUNNING), ("merge", TaskState.RUNNING))


class RestoredWorld(World):
    """A world over files, that can lose its state to a backup."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        super().__init__(SqliteStore.open(directory / "first"))

    def back_up(self) -> None:
        back_up(self.directory / "first", self.directory / "backup", now=self.clock.now())

    def restore(self) -> None:
        self.store.close()
        restore(self.directory / "backup", self.directory / "second")
        self.store = SqliteStore.open(self.directory / "second")
        self.restart()


@pytest.fixture
def world(tmp_path: Path) -> RestoredWorld:
    return RestoredWorld(tmp_path)


def test_a_query_that_still_runs_goes_on_under_versions_that_agents_take(world: RestoredWorld) -> None:
    query = world.run()
    world.back_up()
    given = max(world.board.version(site) for site in ("us", "eu", "hub"))
    world.clock.advance(timedelta(seconds=1))
    world.restore()
    assert not world.jobs.settled
    world.report("us", *US)
    world.tick()
    assert not world.jobs.settled
    world.report("eu", *EU)
    world.tick()
    assert world.jobs.settled
    assert world.state(query) is QueryState.RUNNING
    assert sorted(world.tasks_at("eu")) == ["clicks", "merge"]
    assert all(world.board.version(site) > given for site in ("us", "eu", "hub"))
    world.restart()
    assert world.jobs.settled


def test_a_query_that_ended_after_the_backup_does_not_begin_anew(world: RestoredWorld) -> None:
    query = world.run()
    world.back_up()
    world.restore()
    world.report("us")
    world.report("eu")
    world.tick()
    record = world.queries.get(query)
    assert record.state is QueryState.FAILED
    assert record.reason == (
        "the master was restored from a backup of 2026-01-01 00:00:00: site eu does not run it any more; "
        "submit it again"
    )
    assert world.tasks_at("us") == world.tasks_at("eu") == []


def test_a_query_from_after_the_backup_is_in_no_assignment(world: RestoredWorld) -> None:
    world.back_up()
    query = world.run()
    world.restore()
    assert not world.jobs.settled
    world.tick()
    assert world.jobs.settled
    assert query not in [record.id for record in world.queries.all()]
    assert world.tasks_at("us") == world.tasks_at("eu") == []


def test_a_paused_query_whose_tasks_are_there_goes_on_and_one_whose_are_not_is_over(world: RestoredWorld) -> None:
    query = world.run()
    world.jobs.pause(query)
    world.back_up()
    world.restore()
    world.report("us", ("pages", TaskState.ENDED), ("clicks", TaskState.PAUSED))
    world.report("eu")
    world.tick()
    assert world.state(query) is QueryState.FAILED


def test_sites_that_are_not_heard_are_waited_for_only_so_long(world: RestoredWorld) -> None:
    query = world.run()
    world.back_up()
    world.restore()
    world.clock.advance(CONFIG.heartbeat_timeout - timedelta(seconds=1))
    world.tick()
    assert not world.jobs.settled
    world.clock.advance(timedelta(seconds=2))
    world.tick()
    assert world.jobs.settled
    assert "none of its sites was heard" in world.queries.get(query).reason


def test_a_master_that_is_killed_while_it_waits_waits_again(world: RestoredWorld) -> None:
    query = world.run()
    world.back_up()
    world.restore()
    world.restart()
    assert not world.jobs.settled
    world.report("us", *US)
    world.report("eu", *EU)
    world.tick()
    assert world.state(query) is QueryState.RUNNING


def test_nothing_new_is_taken_before_it_is_known_what_runs(world: RestoredWorld) -> None:
    query = world.run()
    world.back_up()
    world.restore()
    with pytest.raises(NotSettledError):
        world.submit()
    with pytest.raises(NotSettledError):
        world.board.current("us")
    world.report("us", *US)
    world.report("eu", *EU)
    world.tick()
    world.submit()
    assert world.state(query) is QueryState.RUNNING


def test_a_query_that_is_cancelled_while_nothing_is_settled_ends(world: RestoredWorld) -> None:
    query = world.run()
    world.back_up()
    world.restore()
    world.jobs.cancel(query)
    world.tick()
    world.wait(timedelta(seconds=1))
    assert world.state(query) is QueryState.CANCELLED
