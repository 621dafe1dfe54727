"""The epochs of one channel: which were published, which are kept, their rows and their sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import takewhile

import pyarrow as pa

from machine.faults import reached
from site_agent.base.errors import ChannelError, CorruptEpochError, TrimmedEpochError
from site_agent.base.faults import FaultPoint
from site_agent.channels.codec import EncodedRows, decode_part
from site_agent.channels.directory import ChannelDirectory
from site_agent.channels.epoch_file import EpochHeader
from site_agent.channels.manifest import EpochManifest
from site_agent.channels.recovery import Recovered
from site_agent.channels.state import ChannelState


class Epochs:
    """May be read in any thread, without waiting for the disk; only the channel's log changes it."""

    def __init__(self, directory: ChannelDirectory, state: ChannelState, found: Recovered) -> None:
        self._directory = directory
        self._state = state
        self._sizes = found.sizes
        first = max(found.consumers.first_epoch, min(found.sizes, default=0))
        state.next_epoch = max(found.sizes, default=first - 1) + 1
        self.first = min(first, state.next_epoch)
        """The oldest epoch that is kept; equals `next` when none is kept."""
        self.retained_bytes = sum(size for epoch, size in self._sizes.items() if epoch >= self.first)
        """Bytes on disk of the epochs that some consumer still needs or keeps."""
        self.damage: CorruptEpochError | None = None
        """The damage of an epoch that a reader needed; None once the epoch is repaired."""
        self._newest: EpochHeader | None = None
        self._rows_before: dict[int, int] = {}
        """It holds the numbers of kept epochs whose headers were read."""
        self._count_offsets()
        self.remove_given_up()

    @property
    def next(self) -> int:
        """The epoch that is to be published next."""
        return self._state.next_epoch

    def __contains__(self, epoch: int) -> bool:
        """Whether the epoch's file is here, needed or not."""
        return epoch in self._sizes

    @property
    def last_manifest(self) -> EpochManifest | None:
        """Of the newest epoch, even when nobody needs its rows any more; None when there never was one.

        Raises:
            CorruptEpochError: its file is damaged.
        """
        header = self._newest_header()
        return header.manifest if header else None

    @property
    def rows(self) -> int:
        """Rows of all epochs that were ever published; used for lags only, so a damaged epoch does not block the next
        one."""
        try:
            newest = self._newest_header()
        except CorruptEpochError:
            return self.rows_before(self.next)
        return newest.rows_before + newest.manifest.rows if newest else 0

    def manifest(self, epoch: int) -> EpochManifest:
        """Raises TrimmedEpochError, CorruptEpochError, or ChannelError when it is not published yet."""
        return self._header(epoch).manifest

    def read(self, epoch: int, *, columns: Sequence[str] = (), bins: Sequence[int] = ()) -> pa.Table | None:
        """Rows of an epoch, None if it has none; only these columns and bins, empty meaning all.

        Raises:
            TrimmedEpochError: no longer kept.
            CorruptEpochError: damaged on disk.
            ChannelRequestError: no such column, or rows without bins.
            ChannelError: not published yet.
        """
        manifest, encoded = self.read_encoded(epoch)
        if encoded is None:
            return None
        table = decode_part(encoded, manifest.bins, columns=columns, bins=bins)
        return table if table.num_rows else None

    def read_encoded(self, epoch: int) -> tuple[EpochManifest, EncodedRows | None]:
        """An epoch as it is stored, with checked checksums; raises the errors of `read`."""
        self._check_kept(epoch)
        try:
            header, encoded = self._directory.epoch(epoch)
        except CorruptEpochError as error:
            self._check_kept(epoch)
            self.damage = error
            raise
        return header.manifest, encoded

    def bytes_from(self, epoch: int) -> int:
        """Bytes on disk of the epochs from this one on that some consumer needs."""
        end_bytes = self._end_offset
        return end_bytes - self._offsets.get(max(epoch, self.first), end_bytes)

    def stored_bytes(self, epoch: int) -> int:
        """Size of an epoch's file; 0 when it is not here."""
        return self._sizes.get(epoch, 0)

    def written_at(self, epoch: int) -> datetime | None:
        """The time at which the epoch was written to this disk; None when its file is not here."""
        return self._directory.written_at(epoch)

    def rows_from(self, epoch: int) -> int:
        """Rows in the epochs from this one on."""
        newest = self._newest_header()
        if newest is None or epoch >= self.next:
            return 0
        oldest = max(epoch, self.first)
        before = self._rows_before.get(oldest)
        if before is None:
            before = self._rows_before[oldest] = self._header(oldest).rows_before
        return newest.rows_before + newest.manifest.rows - before

    def rows_before(self, epoch: int) -> int:
        """Rows in the epochs before this one, as far as the header of a kept epoch tells."""
        return self._directory.rows_before(epoch, self._sizes)

    def add(self, sizes: Mapping[int, int], newest: EpochHeader) -> None:
        """The next epochs are in place, with files of these sizes."""
        for epoch, size in sizes.items():
            self._offsets[epoch] = self._end_offset
            self._end_offset += size
        self._sizes |= sizes
        self.retained_bytes += sum(sizes.values())
        self._newest = newest
        self._rows_before[newest.manifest.epoch] = newest.rows_before
        self._state.next_epoch = newest.manifest.epoch + 1
        self.remove_given_up()

    def replace(self, header: EpochHeader, size_bytes: int) -> None:
        """The file of a kept epoch was written again."""
        epoch = header.manifest.epoch
        if epoch >= self.first:
            self.retained_bytes += size_bytes - self._sizes[epoch]
        self._sizes[epoch] = size_bytes
        self._count_offsets()
        if epoch == self.next - 1:
            self._newest = header
        self.damage = None

    def begin_at(self, epoch: int) -> None:
        """The log holds no epochs, and this one will be the first."""
        self.first = self._state.next_epoch = epoch

    def give_up(self, first: int) -> None:
        """Epochs before `first` are not kept."""
        for epoch in range(self.first, first):
            self.retained_bytes -= self._sizes[epoch]
        self.first = max(self.first, first)
        self.remove_given_up()

    def remove_given_up(self) -> None:
        """Remove the files of epochs that are not kept.

        The newest file stays even when it was acknowledged: `next` and `last_manifest` are read from it after a
        restart.
        """
        limit = min(self.first, self.next - 1)
        for epoch in list(takewhile(lambda epoch: epoch < limit, self._sizes)):
            self._directory.remove(epoch)
            del self._sizes[epoch]
            self._offsets.pop(epoch, None)
            self._rows_before.pop(epoch, None)
            reached(FaultPoint.EPOCH_TRIMMED)

    def _count_offsets(self) -> None:
        """For each kept epoch, the bytes of the kept epochs before it."""
        offsets: dict[int, int] = {}
        total = 0
        for epoch, size in self._sizes.items():
            offsets[epoch] = total
            total += size
        self._offsets, self._end_offset = offsets, total

    def _newest_header(self) -> EpochHeader | None:
        if self._newest is None and self._sizes:
            self._newest = self._directory.header(self.next - 1)
        return self._newest

    def _header(self, epoch: int) -> EpochHeader:
        newest = self._newest_header() if epoch == self.next - 1 else None
        if newest is not None and newest.manifest.epoch == epoch:
            return newest
        self._check_kept(epoch)
        try:
            return self._directory.header(epoch)
        except CorruptEpochError as error:
            self._check_kept(epoch)
            self.damage = error
            raise

    def _check_kept(self, epoch: int) -> None:
        self._state.check_exists()
        if epoch < self.first:
            raise TrimmedEpochError(
                f"epoch {epoch} of channel {self._state.channel} is no longer kept",
                hint=f"the oldest one is {self.first}",
                ids={**self._state.ids(epoch), "first_epoch": str(self.first)},
            )
        if epoch >= self.next:
            raise ChannelError(
                f"epoch {epoch} of channel {self._state.channel} is not published yet", ids=self._state.ids(epoch)
            )
