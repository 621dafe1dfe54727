"""A backup is the state of one moment, and is restored whole, into an empty directory, or not at all."""

from __future__ import annotations

import hashlib
import json
import sqlite3
import stat
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from master import commands
from master.backup import LEAP, Backup, back_up, restore
from master.base.errors import StoreError
from master.records.model import AssignmentMark
from master.store import LeaseUpdate
from master.store.database import STATE_FILE, lock_directory
from master.store.migrations import MIGRATIONS
from master.store.sqlite import SqliteStore
from tests.unit.master.build import CLICKS, START
from tests.unit.master.store.contract import lease


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A state with something in it, whose master does not run."""
    directory = tmp_path / "data"
    store = SqliteStore.open(directory)
    fill(store)
    store.close()
    return directory


def fill(store: SqliteStore) -> None:
    store.cluster("c-1")
    store.put_relation(CLICKS)
    store.put_assignment_marks([AssignmentMark("us", 5, "x")])
    store.put_leases(LeaseUpdate((lease("us", 0, fencing=7),), (), 7, START))


@pytest.fixture
def file(data: Path, tmp_path: Path) -> Path:
    back_up(data, tmp_path / "backup", now=START)
    return tmp_path / "backup"


def test_a_backup_says_what_it_is_and_is_its_owners(data: Path, tmp_path: Path) -> None:
    said = back_up(data, tmp_path / "backup", now=START)
    assert (said.cluster, said.schema, said.made_at) == ("c-1", len(MIGRATIONS), START)
    with open(tmp_path / "backup", "rb") as file:
        assert Backup(**json.loads(file.readline())) == said
        assert len(file.read()) == said.size_bytes
    assert stat.S_IMODE((tmp_path / "backup").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


def test_a_state_is_backed_up_while_a_master_writes_it(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "data")
    fill(store)
    back_up(tmp_path / "data", tmp_path / "backup", now=START)
    store.delete_relation(CLICKS.name)
    assert store.relations() == ()
    restore(tmp_path / "backup", tmp_path / "other")
    assert SqliteStore.open(tmp_path / "other").relations() == (CLICKS,)
    store.close()


def test_a_restored_state_is_ahead_of_all_that_was_given_since(file: Path, tmp_path: Path) -> None:
    restore(file, tmp_path / "other")
    store = SqliteStore.open(tmp_path / "other")
    assert store.cluster("c-2").id == "c-1"
    assert store.cluster("c-2").version == 5 + LEAP
    assert store.assignment_marks() == ()
    assert (store.leases().fencing, store.leases().leases[0].fencing) == (7 + LEAP, 7)
    assert store.restored_from() == START
    store.settle_restored()
    assert store.restored_from() is None


def test_a_state_without_leases_is_ahead_too(tmp_path: Path) -> None:
    store = SqliteStore.open(tmp_path / "data")
    store.cluster("c-1")
    store.close()
    back_up(tmp_path / "data", tmp_path / "backup", now=START)
    restore(tmp_path / "backup", tmp_path / "other")
    assert SqliteStore.open(tmp_path / "other").leases().fencing == LEAP


def test_a_backup_is_restored_as_often_as_wanted_and_backed_up_again(file: Path, tmp_path: Path) -> None:
    restore(file, tmp_path / "first")
    back_up(tmp_path / "first", tmp_path / "again", now=START + timedelta(days=1))
    restore(tmp_path / "again", tmp_path / "second")
    store = SqliteStore.open(tmp_path / "second")
    assert store.cluster("").version == 5 + 2 * LEAP
    assert store.restored_from() == START + timedelta(days=1)


def test_nothing_is_written_over(file: Path, data: Path, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is there already"):
        back_up(data, file, now=START)
    before = (data / STATE_FILE).read_bytes()
    with pytest.raises(StoreError, match="is not empty"):
        restore(file, data)
    assert (data / STATE_FILE).read_bytes() == before
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "x").touch()
    with pytest.raises(StoreError, match="is not empty"):
        restore(file, tmp_path / "used")


def test_nothing_is_restored_beside_a_master_that_runs(file: Path, tmp_path: Path) -> None:
    running = SqliteStore.open(tmp_path / "running")
    with pytest.raises(StoreError, match="is not empty"):
        restore(file, tmp_path / "running")
    running.close()
    starting = tmp_path / "starting"
    starting.mkdir()
    with lock_directory(starting), pytest.raises(StoreError, match="another master"):
        restore(file, starting)
    restore(file, starting)


def test_rights_of_a_directory_that_is_used_otherwise_are_left_alone(file: Path, tmp_path: Path) -> None:
    used = tmp_path / "used"
    used.mkdir()
    used.chmod(0o755)
    (used / "x").touch()
    with pytest.raises(StoreError, match="is not empty"):
        restore(file, used)
    assert stat.S_IMODE(used.stat().st_mode) == 0o755
    assert [path.name for path in used.iterdir()] == ["x"]


def test_what_is_no_state_is_not_backed_up(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="has no state of a master"):
        back_up(tmp_path, tmp_path / "backup", now=START)
    (tmp_path / STATE_FILE).write_bytes(b"SQLite format 3\0" + b"x" * 5000)
    with pytest.raises(StoreError, match="cannot be copied"):
        back_up(tmp_path, tmp_path / "backup", now=START)
    assert not (tmp_path / "backup").exists()


def cut(content: bytes) -> bytes:
    return content[:-100]


def longer(content: bytes) -> bytes:
    return content + b"x"


def flipped(content: bytes) -> bytes:
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1 :]


def other_bytes(content: bytes) -> bytes:
    return b"\x80" * 100


def nothing(content: bytes) -> bytes:
    return b""


def other_json(content: bytes) -> bytes:
    return b'{"a": 1}\n' + content.partition(b"\n")[2]


@pytest.mark.parametrize("damage", [cut, longer, flipped, other_bytes, nothing, other_json])
def test_a_damaged_backup_is_refused_and_leaves_no_state(
    file: Path, tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    whole = file.read_bytes()
    file.write_bytes(damage(whole))
    with pytest.raises(StoreError, match=r"is damaged|is no backup"):
        restore(file, tmp_path / "other")
    assert not (tmp_path / "other" / STATE_FILE).exists()
    file.write_bytes(whole)
    restore(file, tmp_path / "other")


@pytest.mark.parametrize("content", [b"no database at all", b""])
def test_what_is_no_state_is_not_restored(file: Path, tmp_path: Path, content: bytes) -> None:
    head = json.loads(file.read_bytes().partition(b"\n")[0])
    said = {**head, "size_bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    file.write_bytes(json.dumps(said).encode() + b"\n" + content)
    with pytest.raises(StoreError, match="is damaged"):
        restore(file, tmp_path / "other")


@pytest.mark.parametrize("change", [{"schema": len(MIGRATIONS) + 1}, {"selat_backup": 2}])
def test_a_backup_of_a_newer_version_is_refused(file: Path, tmp_path: Path, change: dict[str, int]) -> None:
    head, _, content = file.read_bytes().partition(b"\n")
    file.write_bytes(json.dumps({**json.loads(head), **change}).encode() + b"\n" + content)
    with pytest.raises(StoreError, match="which is newer"):
        restore(file, tmp_path / "other")


def test_a_backup_of_an_older_version_is_brought_up_to_date(tmp_path: Path) -> None:
    """A state from before there were leases."""
    old = tmp_path / "old"
    old.mkdir()
    connection = sqlite3.connect(old / STATE_FILE)
    for step in MIGRATIONS[:2]:
        connection.executescript(step)
    connection.executescript("PRAGMA user_version = 2; INSERT INTO cluster VALUES (1, 'c-0', 3, 1);")
    connection.close()
    assert back_up(old, tmp_path / "backup", now=START).schema == 2
    restore(tmp_path / "backup", tmp_path / "other")
    store = SqliteStore.open(tmp_path / "other")
    assert (store.cluster("").id, store.leases().fencing) == ("c-0", LEAP)


def test_the_commands_say_what_they_did_and_what_is_wrong(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    backup = ["backup", "--data", str(data), "--to", str(tmp_path / "b")]
    assert commands.main(backup) == 0
    assert "state of cluster c-1" in capsys.readouterr().out
    assert commands.main(backup) == 1
    assert "is there already" in capsys.readouterr().err
    restoring = ["restore", "--data", str(tmp_path / "new"), "--from", str(tmp_path / "b")]
    assert commands.main(restoring) == 0
    assert "is not in it" in capsys.readouterr().out
    assert commands.main(["restore", "--data", str(tmp_path / "x"), "--from", str(tmp_path / "nowhere")]) == 1
    assert "No such file" in capsys.readouterr().err
