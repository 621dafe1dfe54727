"""Versions of assignments: up with each change, never with none, never back."""

from __future__ import annotations

from pathlib import Path

from master.reconcile.board import AssignmentBoard
from master.records.specs import Assignment
from master.store.sqlite import SqliteStore

EMPTY = Assignment()
ONE = Assignment(site_addresses={"us": "a:1"})
TWO = Assignment(site_addresses={"us": "a:2"})


def test_only_a_change_raises_the_version_and_wakes_watchers() -> None:
    store = SqliteStore.in_memory()
    board = AssignmentBoard(store, version=store.cluster("c").version)
    assert board.version("us") == 0
    assert board.publish({"us": EMPTY, "eu": EMPTY}) == ("us", "eu")
    seen = board.changes("us").version, board.changes("eu").version
    assert board.publish({"us": ONE, "eu": EMPTY}) == ("us",)
    assert (board.version("us"), board.version("eu")) == (2, 1)
    assert board.publish({"us": ONE, "eu": EMPTY}) == ()
    assert board.version("us") == 2
    assert (board.changes("us").version, board.changes("eu").version) == (seen[0] + 1, seen[1])
    assert board.current("us").assignment == ONE


def test_a_restarted_master_goes_on_from_the_stored_versions(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path)
    board = AssignmentBoard(store, version=store.cluster("c").version)
    board.publish({"us": ONE})
    board.publish({"us": TWO})
    store.close()

    store = SqliteStore.open(tmp_path)
    board = AssignmentBoard(store, version=store.cluster("c").version)
    assert board.publish({"us": TWO}) == ()
    assert board.current("us").version == 2
    assert board.publish({"us": ONE}) == ("us",)
    assert board.version("us") == 3
    store.close()


def test_going_back_to_an_older_content_is_a_new_version() -> None:
    store = SqliteStore.in_memory()
    board = AssignmentBoard(store, version=store.cluster("c").version)
    versions = []
    for assignment in (ONE, TWO, ONE):
        board.publish({"us": assignment})
        versions.append(board.version("us"))
    assert versions == [1, 2, 3]
