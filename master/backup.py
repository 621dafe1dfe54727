"""Backups of the master's state: one file each, made while the master runs, and restored into an empty directory.

A backup is a line of JSON (`Backup`) and the SQLite file after it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from contract.times import from_us, to_us
from machine.description import package_version
from machine.private import NotPrivateError, make_private
from master.base.errors import StoreError
from master.store.database import LOCK_FILE, STATE_FILE, lock_directory, migrate
from master.store.migrations import MIGRATIONS

FORMAT = 1
LEAP = 2**32
"""A restored master skips this many versions and fencing numbers: more than were given after the backup."""

_HEADER_BYTES = 64 * 1024
_PIECE_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Backup:
    """The header of a backup."""

    selat_backup: int
    """The version of the format."""
    version: str
    """The version of Selat that made it."""
    schema: int
    """The number of steps of `master.store.migrations` that were applied."""
    cluster: str
    made_at_us: int
    size_bytes: int
    sha256: str

    @property
    def made_at(self) -> datetime:
        return from_us(self.made_at_us)


def back_up(data: Path, target: Path, *, now: datetime) -> Backup:
    """Copy the state in a master's directory, as it is at one moment, to a file; the master may be running.

    Args:
        data: The master's directory.
        target: The file to write; it must not be there.
        now: The time that the backup says.

    Raises:
        StoreError: there is no state, it is damaged, or the file is there already.
        OSError: the file cannot be written.
    """
    state = data / STATE_FILE
    if not state.is_file():
        raise StoreError(f"{data} has no state of a master", hint="name the directory that the master has as --data")
    if target.exists():
        raise StoreError(f"{target} is there already", hint="name a new file; backups are not written over")
    with _temporary(target.parent) as copy:
        try:
            schema, cluster = _copy(state, copy)
        except sqlite3.Error as error:
            raise StoreError(f"{state} cannot be copied: {error}", hint="look at its disk") from error
        said = Backup(FORMAT, package_version("selat"), schema, cluster, to_us(now), copy.stat().st_size, _digest(copy))
        with _temporary(target.parent) as whole:
            with open(whole, "wb") as file, open(copy, "rb") as content:
                file.write(json.dumps(asdict(said)).encode() + b"\n")
                shutil.copyfileobj(content, file, _PIECE_BYTES)
                _sync(file)
            whole.rename(target)
    _sync_directory(target.parent)
    return said


def restore(source: Path, data: Path) -> Backup:
    """Restore a backup into an empty directory; docs/operations.md says how a master continues from it.

    Raises:
        StoreError: the directory is not empty, or a master has it; or the file is no backup, damaged, or of a newer
            version.
        OSError: the file cannot be read, or the directory not written.
    """
    # A restore that failed before left its lock file.
    if data.is_dir() and any(path.name != LOCK_FILE for path in data.iterdir()):
        raise StoreError(f"{data} is not empty", hint="name a new directory; a state is not written over")
    try:
        make_private(data)
    except NotPrivateError as error:
        raise StoreError(str(error), hint=error.hint) from error
    with lock_directory(data), open(source, "rb") as file, _temporary(data) as copy:
        said = _header(source, file)
        with open(copy, "wb") as target:
            shutil.copyfileobj(file, target, _PIECE_BYTES)
        if copy.stat().st_size != said.size_bytes or _digest(copy) != said.sha256:
            raise StoreError(f"{source} is damaged: its content is not what it says", hint="take another backup")
        try:
            _mark_restored(copy, said)
        except sqlite3.Error as error:
            raise StoreError(f"{source} is damaged: {error}", hint="take another backup") from error
        with open(copy, "rb") as target:
            _sync(target)
        copy.rename(data / STATE_FILE)
        _sync_directory(data)
    return said


def _copy(state: Path, copy: Path) -> tuple[int, str]:
    """The schema version and cluster of the copied state. Raises sqlite3.Error."""
    uri = f"{state.resolve().as_uri()}?mode=ro"
    with closing(sqlite3.connect(uri, uri=True)) as running, closing(sqlite3.connect(copy)) as target:
        running.backup(target)
        target.execute("PRAGMA journal_mode = DELETE")
        _check(target)
        (schema,) = target.execute("PRAGMA user_version").fetchone()
        row = target.execute("SELECT id FROM cluster").fetchone()
        return int(schema), str(row[0]) if row else ""


def _mark_restored(copy: Path, said: Backup) -> None:
    """Migrate the state, and record that agents may be ahead of it. Raises sqlite3.Error, StoreError."""
    with closing(sqlite3.connect(copy, isolation_level=None)) as connection:
        _check(connection)
        if connection.execute("PRAGMA user_version").fetchone() != (said.schema,):
            raise sqlite3.DatabaseError("it has other tables than it says")
        migrate(connection)
        connection.executescript(
            f"""
            BEGIN IMMEDIATE;
            UPDATE cluster SET version = version + {LEAP};
            INSERT OR IGNORE INTO lease_mark VALUES (1, 0, {said.made_at_us});
            UPDATE lease_mark SET fencing = fencing + {LEAP};
            DELETE FROM assignments;
            INSERT OR REPLACE INTO restored VALUES (1, {said.made_at_us});
            COMMIT;
            """
        )


def _check(connection: sqlite3.Connection) -> None:
    """Raises sqlite3.DatabaseError when the file is damaged."""
    (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if found != "ok":
        raise sqlite3.DatabaseError(str(found))


def _header(source: Path, file: IO[bytes]) -> Backup:
    try:
        values: dict[str, Any] = json.loads(file.readline(_HEADER_BYTES))
        said = Backup(
            selat_backup=int(values["selat_backup"]),
            version=str(values["version"]),
            schema=int(values["schema"]),
            cluster=str(values["cluster"]),
            made_at_us=int(values["made_at_us"]),
            size_bytes=int(values["size_bytes"]),
            sha256=str(values["sha256"]),
        )
    except (ValueError, TypeError, KeyError):
        raise StoreError(f"{source} is no backup of a master's state", hint="selat master backup makes them") from None
    if said.selat_backup > FORMAT or said.schema > len(MIGRATIONS):
        raise StoreError(
            f"{source} was made by Selat {said.version}, which is newer", hint="restore it with that version"
        )
    return said


def _digest(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def _temporary(directory: Path) -> Iterator[Path]:
    """A private temporary file, removed at the end unless it was renamed."""
    descriptor, name = tempfile.mkstemp(prefix=".backup-", dir=directory)
    os.close(descriptor)
    try:
        yield Path(name)
    finally:
        Path(name).unlink(missing_ok=True)


def _sync(file: IO[bytes]) -> None:
    file.flush()
    os.fsync(file.fileno())


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
