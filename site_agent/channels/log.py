"""One channel's epochs on this site's disk."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import takewhile
from pathlib import Path

import pyarrow as pa

from machine.faults import reached
from site_agent.base.disk import disk_error
from site_agent.base.errors import (
    ChannelError,
    CorruptEpochError,
    LostChannelError,
    TrimmedEpochError,
    UnknownChannelError,
)
from site_agent.base.faults import FaultPoint
from site_agent.base.files import Files, write_json
from site_agent.base.json import Json
from site_agent.base.waiters import Waiters
from site_agent.channels.codec import EncodedRows, decode, encode, group_by_bin, select, with_last
from site_agent.channels.consumers import Consumers
from site_agent.channels.epoch_file import EpochHeader, counted, pack, read_epoch, read_header
from site_agent.channels.manifest import BinRange, EndMark, EpochManifest, Standing
from site_agent.channels.pace import ChannelReader, QueryReaders, ReaderCursors, Waiting
from site_agent.channels.recovery import (
    CONSUMERS_FILE,
    END_FILE,
    STANDING_FILE,
    WHOLE_FILE,
    epoch_path,
    recover,
    rows_before,
    temporary_path,
)

BYTES_OUT = "bytes_out"
"""In the commit of the last of epochs that were published together: the size of their payloads."""


class ChannelLog:
    """Appends and reads epochs in order; an epoch is visible once it is durable. Safe to use from several threads.

    Writers wait for each other and for the disk; looking at the log's state never does, so an event loop may.
    """

    def __init__(self, directory: Path, files: Files) -> None:
        self.id = directory.name
        self.directory = directory
        self._files = files
        self._writing = threading.RLock()
        self._waiters = Waiters()
        self._removed = False
        state = recover(directory, files)
        self._sizes = state.sizes
        self._end = state.end
        self._standing = state.standing
        self._consumers = state.consumers
        self._first = max(state.consumers.first_epoch, min(state.sizes, default=0))
        self._next = max(state.sizes, default=self._first - 1) + 1
        self._first = min(self._first, self._next)
        self._retained = sum(size for epoch, size in self._sizes.items() if epoch >= self._first)
        self._awaited: dict[str, int | None] = {}
        self._count_offsets()
        self._readers = ReaderCursors()
        self._newest: EpochHeader | None = None
        self._damage: CorruptEpochError | None = None
        self._lost: LostChannelError | None = None
        self._remove_given_up()

    @property
    def first_epoch(self) -> int:
        """The oldest epoch that is kept; equals `next_epoch` when none is."""
        return self._first

    @property
    def next_epoch(self) -> int:
        """The epoch that is to be published next."""
        return self._next

    @property
    def end(self) -> EndMark | None:
        return self._end

    @property
    def retained_bytes(self) -> int:
        """Disk bytes of the epochs that some consumer still needs, be it to keep them."""
        return self._retained

    @property
    def awaited_bytes(self) -> int:
        """Disk bytes of the epochs that some consumer has still to take, so that the producer may have to wait.

        Fewer than those retained where a consumer keeps what it has, see `set_awaited`.
        """
        first = min(self._awaited_cursors().values(), default=self._first)
        return self.bytes_from(first)

    @property
    def damage(self) -> CorruptEpochError | None:
        """What is wrong with an epoch that somebody needed and could not read; None once it was put right."""
        return self._damage

    @property
    def last_manifest(self) -> EpochManifest | None:
        """Of the newest epoch, even when nobody needs its rows any more; None when there never was one.

        Raises:
            CorruptEpochError: its file is damaged.
        """
        header = self._newest_header()
        return header.manifest if header else None

    @property
    def standing(self) -> Standing | None:
        """The watermark and idleness that the channel last said, even when nobody needs that epoch any more.

        None when it has said nothing, or when this is not known here: those epochs never were here, or the newest is
        damaged.
        """
        known = self._standing
        if known is not None and known.next_epoch == self._next:
            return known
        with suppress(CorruptEpochError):
            newest = self._newest_header()
            return newest.manifest.standing if newest else None
        return None

    @property
    def consumers(self) -> tuple[str, ...]:
        return tuple(self._consumers.cursors)

    @property
    def slowest_consumers(self) -> tuple[str, ...]:
        """Those that have taken least."""
        cursors = self._awaited_cursors()
        least = min(cursors.values(), default=0)
        return tuple(name for name, cursor in cursors.items() if cursor == least)

    def waiting(self) -> tuple[Waiting, ...]:
        """What is kept for each query that reads, as far as they were named; else for all readers together."""
        if not self._readers.queries:
            return (Waiting("", self.awaited_bytes, self.slowest_consumers),)
        positions = self._readers.positions(self._awaited_cursors())
        return tuple(
            Waiting(query, 0 if cursor is None else self.bytes_from(cursor), sites)
            for query, (cursor, sites) in positions.items()
        )

    def publish(
        self,
        epoch: int,
        table: pa.Table | None,
        *,
        watermark_us: int | None,
        idle: bool = False,
        commit: Mapping[str, Json] | None = None,
    ) -> EpochManifest:
        """Append an epoch; it is durable and visible when this returns.

        Rows are grouped by the column `_bin` if there is one. An epoch that is there already is left as it is.

        Raises:
            ChannelError: the epoch is not the next one, the channel has ended, or the disk refused.
        """
        if epoch < self._next:
            return self.manifest(epoch)
        encoded: EncodedRows | None = None
        bins: tuple[BinRange, ...] = ()
        if table is not None and table.num_rows:
            grouped, bins = group_by_bin(table)
            encoded = encode(grouped)
        manifest = EpochManifest(epoch, 0, 0, 0, watermark_us, idle, bins, commit or {})
        return self.append(manifest, encoded)

    def append(self, manifest: EpochManifest, encoded: EncodedRows | None) -> EpochManifest:
        """Like `publish`, with rows that are encoded and grouped already; row and byte counts are taken from them."""
        with self._writing:
            if manifest.epoch < self._next:
                return self.manifest(manifest.epoch)
            self.append_all([(manifest, encoded)])
            return self._newest.manifest if self._newest else manifest

    def append_all(self, epochs: Sequence[tuple[EpochManifest, EncodedRows | None]]) -> None:
        """Like `append` for epochs that follow each other; they become visible together, for one sync of the directory.

        After an error none of them is.
        """
        with self._writing:
            new = [(counted(m, encoded), encoded) for m, encoded in epochs if m.epoch >= self._next]
            headers: list[EpochHeader] = []
            rows_before = self._rows_so_far() if new else 0
            for manifest, encoded in new:
                self._check_next(manifest.epoch, after=len(headers))
                headers.append(EpochHeader(manifest, len(encoded.schema) if encoded else 0, rows_before))
                rows_before += manifest.rows
            files = {h.manifest.epoch: pack(h, encoded) for h, (_, encoded) in zip(headers, new, strict=True)}
            if not files:
                return
            sizes = self._commit(files)
            for epoch, size in sizes.items():
                self._offsets[epoch] = self._end_offset
                self._end_offset += size
            self._sizes |= sizes
            self._retained += sum(sizes.values())
            self._newest = headers[-1]
            self._next = headers[-1].manifest.epoch + 1
            self._remove_given_up()
        self._waiters.wake()

    def publish_all(self, epochs: Iterable[EncodedRows], commit: Mapping[str, Json]) -> int:
        """Publish every epoch that the channel will have: all of them last, or none does.

        Two epochs are in memory at a time. The last one gets the commit, with the `bytes_out` of all of them. A channel
        that holds epochs already is left as it is.

        Returns:
            Size of all payloads in bytes.

        Raises:
            ChannelError: the channel has ended, or the disk refused.
        """
        with self._writing:
            if self._next:
                return int(str(self.manifest(self._next - 1).commit.get(BYTES_OUT, 0)))
            sizes: dict[int, int] = {}
            size_bytes, rows_before, header = 0, 0, None
            try:
                for encoded, last in with_last(epochs):
                    self._check_next(len(sizes), after=len(sizes))
                    size_bytes += len(encoded.payload)
                    said = {**commit, BYTES_OUT: size_bytes} if last else {}
                    manifest = counted(EpochManifest(len(sizes), 0, 0, 0, None, False, (), said), encoded)
                    header = EpochHeader(manifest, len(encoded.schema), rows_before)
                    rows_before += manifest.rows
                    parts = pack(header, encoded)
                    self._files.write(temporary_path(self.directory, len(sizes)), parts, sync=True)
                    sizes[len(sizes)] = sum(map(len, parts))
                    reached(FaultPoint.EPOCH_WRITTEN)
            except Exception as error:
                for epoch in sizes:
                    self._files.remove(temporary_path(self.directory, epoch))
                if isinstance(error, OSError):
                    raise self._disk_error(f"epoch {len(sizes)}", error) from error
                raise
            self._make_visible(len(sizes))
            self._sizes, self._newest, self._next = sizes, header, len(sizes)
            self._retained = sum(sizes.values())
            self._count_offsets()
            self._remove_given_up()
        self._waiters.wake()
        return size_bytes

    def _make_visible(self, epochs: int) -> None:
        """Rename epochs that are all written. Once it is stored how many they are, a crash delays this, no more."""
        try:
            write_json(self._files, self.directory / WHOLE_FILE, {"epochs": epochs}, durable=True)
            for epoch in range(epochs):
                self._files.replace(temporary_path(self.directory, epoch), epoch_path(self.directory, epoch))
                reached(FaultPoint.EPOCH_RENAMED)
            self._files.sync_directory(self.directory)
            reached(FaultPoint.EPOCH_COMMITTED)
            self._files.remove(self.directory / WHOLE_FILE)
        except OSError as error:
            raise self._disk_error("epoch 0", error) from error

    def put_right(self, manifest: EpochManifest, encoded: EncodedRows | None) -> None:
        """Replace an epoch whose file is damaged by the same one from elsewhere; one no longer kept is left alone.

        Raises:
            ChannelError: the epoch is not published yet, or the disk refused.
        """
        manifest = counted(manifest, encoded)
        with self._writing:
            if manifest.epoch < self._first and manifest.epoch not in self._sizes:
                return
            if manifest.epoch >= self._next:
                raise ChannelError(f"channel {self.id} never had this epoch", ids=self._ids(manifest.epoch))
            before = rows_before(self.directory, manifest.epoch, self._sizes)
            header = EpochHeader(manifest, len(encoded.schema) if encoded else 0, before)
            size_bytes = self._commit({manifest.epoch: pack(header, encoded)})[manifest.epoch]
            if manifest.epoch >= self._first:
                self._retained += size_bytes - self._sizes[manifest.epoch]
            self._sizes[manifest.epoch] = size_bytes
            self._count_offsets()
            if manifest.epoch == self._next - 1:
                self._newest = header
            self._damage = None

    def begin_at(self, epoch: int, *, standing: Standing | None = None) -> None:
        """Make `epoch` the first one of a log that holds none, because earlier ones can no longer be had. Idempotent.

        `standing` is the channel's standing before that epoch, if it is known.

        Raises:
            ChannelError: the log holds epochs.
        """
        with self._writing:
            if epoch == self._next:
                return
            if self._sizes or epoch < self._next:
                raise ChannelError(
                    f"channel {self.id} cannot begin at epoch {epoch}: it is at {self._next}", ids=self._ids()
                )
            if standing is not None:
                # Stored first, so that no crash leaves a log that begins at this epoch without its standing.
                self._write_json(STANDING_FILE, asdict(standing), durable=True)
                self._standing = standing
            moved = {name: max(cursor, epoch) for name, cursor in self._consumers.cursors.items()}
            self._store_consumers(Consumers(epoch, moved), durable=True)
            self._first = self._next = epoch
        self._waiters.wake()

    def learn(self, standing: Standing) -> None:
        """Store the standing that the producer of this copy sent, if it is the one before the next epoch and unknown.

        Raises:
            ChannelError: the disk refused.
        """
        with self._writing:
            if standing.next_epoch != self._next or self.standing is not None:
                return
            self._write_json(STANDING_FILE, asdict(standing), durable=True)
            self._standing = standing
        self._waiters.wake()

    def finish(self, *, successor_channel: str = "", successor_site: str = "") -> None:
        """End the channel: nothing can be published any more. The first call counts."""
        with self._writing:
            if self._end is None:
                end = EndMark(self._next - 1 if self._next else None, successor_channel, successor_site)
                self._write_json(END_FILE, asdict(end), durable=True)
                reached(FaultPoint.END_STORED)
                self._end = end
        self._waiters.wake()

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
        table = select(decode(encoded), manifest.bins, columns=columns, bins=bins)
        return table if table.num_rows else None

    def read_encoded(self, epoch: int) -> tuple[EpochManifest, EncodedRows | None]:
        """An epoch as it is stored, checked; errors as `read`."""
        self._check_kept(epoch)
        try:
            header, encoded = read_epoch(epoch_path(self.directory, epoch))
        except CorruptEpochError as error:
            self._check_kept(epoch)
            self._damage = error
            raise
        return header.manifest, encoded

    def bytes_from(self, epoch: int) -> int:
        """Disk bytes of the epochs from this one on that are kept for somebody."""
        end_bytes = self._end_offset
        return end_bytes - self._offsets.get(max(epoch, self._first), end_bytes)

    def written_at(self, epoch: int) -> datetime | None:
        """The time at which an epoch was written to this disk; None when it is not here."""
        try:
            return datetime.fromtimestamp(epoch_path(self.directory, epoch).stat().st_mtime, UTC)
        except OSError:
            return None

    def stored_bytes(self, epoch: int) -> int:
        """Size of an epoch's file; 0 when it is not here."""
        return self._sizes.get(epoch, 0)

    def rows_from(self, epoch: int) -> int:
        """Rows in the epochs from this one on."""
        newest = self._newest_header()
        if newest is None or epoch >= self._next:
            return 0
        return newest.rows_before + newest.manifest.rows - self._header(max(epoch, self._first)).rows_before

    def set_consumers(self, names: Iterable[str]) -> None:
        """Say who reads: a new consumer retains everything that is kept, a removed one nothing. Durable."""
        with self._writing:
            self._change_consumers(self._consumers.named(names), durable=True)

    def set_awaited(self, consumer: str, epoch: int | None) -> None:
        """Say what a consumer has still to take, although it acknowledges less because it keeps what it has.

        Nothing before `epoch`; None: it has taken whatever is published. Not stored: it is to be said again after a
        restart, until when all that is not acknowledged counts. One caller at a time; never waits for the disk.
        """
        self._awaited = {**self._awaited, consumer: epoch}

    def set_queries(self, queries: Iterable[QueryReaders]) -> None:
        """Say which readers belong to which query, where several queries read; none: they count together."""
        with self._writing:
            self._readers = self._readers.named(queries)

    def passed(self, site: str, reader: str, cursor: int) -> None:
        """This reader needs nothing before `cursor`, though its site may. Nothing is removed for that, or stored.

        Raises:
            ChannelError: the cursor is beyond the channel.
        """
        with self._writing:
            if cursor > self._next:
                raise ChannelError(f"epoch {cursor - 1} of channel {self.id} is not published yet", ids=self._ids())
            self._readers = self._readers.passed(ChannelReader(site, reader), cursor)

    def acknowledge(self, consumer: str, epoch: int) -> None:
        """This consumer needs nothing up to and with `epoch`; epochs that nobody needs are removed.

        A name that is not a consumer and an epoch that was acknowledged before change nothing. Survives the process;
        a power loss may forget it, which only retains more until it is said again.

        Raises:
            ChannelError: the epoch is not published yet.
        """
        with self._writing:
            if epoch >= self._next:
                raise ChannelError(f"epoch {epoch} of channel {self.id} is not published yet", ids=self._ids(epoch))
            self._change_consumers(self._consumers.acknowledge(consumer, epoch), durable=False)

    def acknowledged(self, consumer: str) -> int | None:
        """The newest epoch this consumer does not need, None if it needs all or is not one."""
        cursor = self._consumers.cursors.get(consumer, 0)
        return cursor - 1 if cursor else None

    async def wait(self, epoch: int, *, or_standing: bool = False) -> None:
        """Return once `epoch` is published, the channel has ended, or (`or_standing`) its standing before it is known.

        Raises:
            UnknownChannelError: the channel was removed.
            LostChannelError: its producer does not send it.
        """

        def settled() -> bool:
            known = or_standing and self._standing is not None and self._standing.next_epoch == epoch
            return known or self._next > epoch or self._removed or self._end is not None or self._lost is not None

        await self._waiters.until(settled)
        self.check_can_come(epoch)

    def check_can_come(self, epoch: int) -> None:
        """Return if the epoch is here, or may still come, or the channel has ended before it.

        Raises:
            UnknownChannelError: the channel was removed.
            LostChannelError: its producer does not send it.
        """
        self._check_exists()
        if self._lost is not None and epoch >= self._next and self._end is None:
            raise self._lost

    def set_lost(self, why: LostChannelError | None) -> None:
        """Mark later epochs of this copy as lost because its producer does not send them; None: it does."""
        if self._lost is not why:
            self._lost = why
            self._waiters.wake()

    def discard(self) -> None:
        """Forget the channel; who waits for it gets UnknownChannelError. The store removes its files."""
        with self._writing:
            self._removed = True
        self._waiters.wake()

    def _awaited_cursors(self) -> Mapping[str, int]:
        """By consumer, the next epoch that it has not taken."""
        awaited = self._awaited
        return {
            name: self._next if (said := awaited.get(name, 0)) is None else max(said, cursor)
            for name, cursor in self._consumers.cursors.items()
        }

    def _commit(self, files: Mapping[int, list[bytes]]) -> dict[int, int]:
        """Put epochs' files in place, in order; their sizes in bytes."""
        temporary = {epoch: temporary_path(self.directory, epoch) for epoch in files}
        try:
            for epoch, parts in files.items():
                self._files.write(temporary[epoch], parts, sync=True)
                reached(FaultPoint.EPOCH_WRITTEN)
            # Nothing is synced in between: file systems journal renames in order, so that a power loss makes no gap.
            for epoch, path in temporary.items():
                self._files.replace(path, epoch_path(self.directory, epoch))
                reached(FaultPoint.EPOCH_RENAMED)
            self._files.sync_directory(self.directory)
        except OSError as error:
            raise self._disk_error(f"epoch {min(files)}", error) from error
        reached(FaultPoint.EPOCH_COMMITTED)
        return {epoch: sum(map(len, parts)) for epoch, parts in files.items()}

    def _change_consumers(self, consumers: Consumers, *, durable: bool) -> None:
        if consumers == self._consumers:
            return
        self._store_consumers(consumers, durable=durable)
        reached(FaultPoint.CURSORS_STORED)
        for epoch in range(self._first, consumers.first_epoch):
            self._retained -= self._sizes[epoch]
        self._first = max(self._first, consumers.first_epoch)
        self._remove_given_up()

    def _store_consumers(self, consumers: Consumers, *, durable: bool) -> None:
        self._write_json(CONSUMERS_FILE, consumers.to_json(), durable=durable)
        self._consumers = consumers

    def _write_json(self, name: str, value: object, *, durable: bool) -> None:
        self._check_exists()
        try:
            write_json(self._files, self.directory / name, value, durable=durable)
        except OSError as error:
            raise self._disk_error(name, error) from error

    def _remove_given_up(self) -> None:
        # The newest file stays whoever acknowledged it: next_epoch and last_manifest are read from it after a restart.
        limit = min(self._first, self._next - 1)
        for epoch in list(takewhile(lambda epoch: epoch < limit, self._sizes)):
            self._files.remove(epoch_path(self.directory, epoch))
            del self._sizes[epoch]
            self._offsets.pop(epoch, None)
            reached(FaultPoint.EPOCH_TRIMMED)

    def _count_offsets(self) -> None:
        """Bytes of the kept epochs before each of them."""
        offsets: dict[int, int] = {}
        total = 0
        for epoch, size in self._sizes.items():
            offsets[epoch] = total
            total += size
        self._offsets, self._end_offset = offsets, total

    def _rows_so_far(self) -> int:
        """Of all epochs; only lags are counted by it, so a damaged one must not keep the next from being stored."""
        try:
            newest = self._newest_header()
        except CorruptEpochError:
            return rows_before(self.directory, self._next, self._sizes)
        return newest.rows_before + newest.manifest.rows if newest else 0

    def _newest_header(self) -> EpochHeader | None:
        if self._newest is None and self._sizes:
            self._newest = read_header(epoch_path(self.directory, self._next - 1))
        return self._newest

    def _header(self, epoch: int) -> EpochHeader:
        newest = self._newest_header() if epoch == self._next - 1 else None
        if newest is not None and newest.manifest.epoch == epoch:
            return newest
        self._check_kept(epoch)
        try:
            return read_header(epoch_path(self.directory, epoch))
        except CorruptEpochError as error:
            self._check_kept(epoch)
            self._damage = error
            raise

    def _check_next(self, epoch: int, *, after: int = 0) -> None:
        """It must be the next epoch after so many that are about to be there."""
        self._check_exists()
        if self._end is not None:
            raise ChannelError(f"channel {self.id} has ended: epoch {epoch} cannot be published", ids=self._ids(epoch))
        if epoch != self._next + after:
            message = f"epoch {epoch} of channel {self.id} is out of order"
            raise ChannelError(message, hint=f"publish epoch {self._next + after} first", ids=self._ids(epoch))

    def _check_kept(self, epoch: int) -> None:
        self._check_exists()
        if epoch < self._first:
            raise TrimmedEpochError(
                f"epoch {epoch} of channel {self.id} is no longer kept",
                hint=f"the oldest one is {self._first}",
                ids={**self._ids(epoch), "first_epoch": str(self._first)},
            )
        if epoch >= self._next:
            raise ChannelError(f"epoch {epoch} of channel {self.id} is not published yet", ids=self._ids(epoch))

    def _check_exists(self) -> None:
        if self._removed:
            raise UnknownChannelError(f"channel {self.id} was removed", ids=self._ids())

    def _disk_error(self, what: str, error: OSError) -> ChannelError:
        return disk_error(f"{what} of channel {self.id}", error, ids=self._ids())

    def _ids(self, epoch: int | None = None) -> dict[str, str]:
        return {"channel": self.id} if epoch is None else {"channel": self.id, "epoch": str(epoch)}
