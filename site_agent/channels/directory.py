"""The directory of one channel. After a crash between any two of its steps the channel is recovered."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path

from machine.faults import reached
from site_agent.base.disk import disk_error
from site_agent.base.errors import ChannelError
from site_agent.base.faults import FaultPoint
from site_agent.base.files import Files, write_json
from site_agent.channels import recovery
from site_agent.channels.codec import EncodedRows
from site_agent.channels.epoch_file import EpochHeader, read_epoch, read_header
from site_agent.channels.recovery import WHOLE_FILE, epoch_path, temporary_path


class ChannelDirectory:
    """Reads, writes and removes files. Epochs are synced under temporary names, and then renamed."""

    def __init__(self, path: Path, files: Files) -> None:
        self.path = path
        self._files = files

    def store(self, name: str, value: object, *, durable: bool) -> None:
        """Replace a small JSON file atomically.

        Raises:
            ChannelError: the disk refused.
        """
        try:
            write_json(self._files, self.path / name, value, durable=durable)
        except OSError as error:
            raise self.error(name, error) from error

    def commit(self, files: Mapping[int, list[bytes]]) -> dict[int, int]:
        """Put the files of epochs in place, in order; returns their sizes in bytes.

        Raises:
            ChannelError: the disk refused.
        """
        try:
            sizes = {epoch: self.prepare(epoch, parts) for epoch, parts in files.items()}
            # No sync in between: file systems journal renames in order, so a power loss leaves no gap.
            self._rename(files)
        except OSError as error:
            raise self.error(f"epoch {min(files)}", error) from error
        reached(FaultPoint.EPOCH_COMMITTED)
        return sizes

    def prepare(self, epoch: int, parts: list[bytes]) -> int:
        """Write an epoch that nobody sees yet; its size in bytes. Raises OSError."""
        self._files.write(temporary_path(self.path, epoch), parts, sync=True)
        reached(FaultPoint.EPOCH_WRITTEN)
        return sum(map(len, parts))

    def withdraw(self, epochs: Iterable[int]) -> None:
        """Remove epochs that were prepared."""
        for epoch in epochs:
            self._files.remove(temporary_path(self.path, epoch))

    def commit_prepared(self, epochs: int) -> None:
        """Put the first epochs in place, which are all prepared: once their number is stored, a crash only delays them.

        Raises:
            ChannelError: the disk refused.
        """
        try:
            write_json(self._files, self.path / WHOLE_FILE, {"epochs": epochs}, durable=True)
            self._rename(range(epochs))
            reached(FaultPoint.EPOCH_COMMITTED)
            self._files.remove(self.path / WHOLE_FILE)
        except OSError as error:
            raise self.error("epoch 0", error) from error

    def remove(self, epoch: int) -> None:
        """Remove an epoch; nothing happens if its file is not here. Raises OSError."""
        self._files.remove(epoch_path(self.path, epoch))

    def header(self, epoch: int) -> EpochHeader:
        """Raises CorruptEpochError when the file is missing or damaged."""
        return read_header(epoch_path(self.path, epoch))

    def epoch(self, epoch: int) -> tuple[EpochHeader, EncodedRows | None]:
        """Header and rows, checked; None when the epoch has no rows. Raises as `header`."""
        return read_epoch(epoch_path(self.path, epoch))

    def rows_before(self, epoch: int, kept: Collection[int]) -> int:
        """The number of rows before this epoch, by the nearest kept epoch before it that is readable."""
        return recovery.rows_before(self.path, epoch, kept)

    def written_at(self, epoch: int) -> datetime | None:
        """The time at which the epoch was written to this disk; None when its file is not here."""
        try:
            return datetime.fromtimestamp(epoch_path(self.path, epoch).stat().st_mtime, UTC)
        except OSError:
            return None

    def error(self, what: str, error: OSError) -> ChannelError:
        """The error to raise when `what` cannot be written."""
        return disk_error(f"{what} of channel {self.path.name}", error, ids={"channel": self.path.name})

    def _rename(self, epochs: Iterable[int]) -> None:
        for epoch in epochs:
            self._files.replace(temporary_path(self.path, epoch), epoch_path(self.path, epoch))
            reached(FaultPoint.EPOCH_RENAMED)
        self._files.sync_directory(self.path)
