"""The SQLite store: the contract in memory and in a file, and what only a file can do."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from master.errors import StoreError
from master.store.migrations import MIGRATIONS
from master.store.sqlite import STATE_FILE, SqliteStore
from tests.unit.master.build import CLICKS, query
from tests.unit.master.store.contract import ACCEPTED, StoreContract


class TestInMemory(StoreContract):
    @pytest.fixture
    def store(self) -> Iterator[SqliteStore]:
        store = SqliteStore.in_memory()
        yield store
        store.close()


class TestInAFile(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SqliteStore]:
        store = SqliteStore.open(tmp_path / "data")
        yield store
        store.close()


def test_state_is_there_after_reopening(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path)
    assert store.cluster("c-one").id == "c-one"
    assert store.next_query_number() == 1
    store.put_relation(CLICKS)
    store.close()

    store = SqliteStore.open(tmp_path)
    assert store.cluster("c-two").id == "c-one"
    assert store.next_query_number() == 2
    assert store.relations() == (CLICKS,)
    store.close()


def test_a_second_master_on_the_same_directory_is_refused(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path)
    with pytest.raises(StoreError, match="another master uses"):
        SqliteStore.open(tmp_path)
    store.close()
    SqliteStore.open(tmp_path).close()


def test_a_file_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    SqliteStore.open(tmp_path).close()
    connection = sqlite3.connect(tmp_path / STATE_FILE)
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    connection.close()
    with pytest.raises(StoreError, match="is of version"):
        SqliteStore.open(tmp_path)


def test_a_write_that_fails_halfway_leaves_nothing_behind() -> None:
    store = SqliteStore.in_memory()
    broken = replace(ACCEPTED, reason=object())  # type: ignore[arg-type]
    with pytest.raises(sqlite3.Error):
        store.put_query(query(), broken)
    assert store.queries() == ()
    store.put_query(query(), ACCEPTED)
    assert store.changes(ACCEPTED.query_id) == (ACCEPTED,)
