"""One channel at this site: epochs are appended in order, and removed when no consumer needs them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import pyarrow as pa

from machine.faults import reached
from site_agent.base.errors import ChannelError, CorruptEpochError
from site_agent.base.faults import FaultPoint
from site_agent.base.files import Files
from site_agent.base.json import Json
from site_agent.channels.codec import EncodedRows, encode, group_by_bin, with_last
from site_agent.channels.consumers import Consumers
from site_agent.channels.directory import ChannelDirectory
from site_agent.channels.epoch_file import EpochHeader, counted, pack
from site_agent.channels.epochs import Epochs
from site_agent.channels.manifest import BinRange, EndMark, EpochManifest, Standing
from site_agent.channels.readers import ChannelReaders
from site_agent.channels.recovery import CONSUMERS_FILE, END_FILE, STANDING_FILE, recover
from site_agent.channels.state import ChannelState

BYTES_OUT = "bytes_out"
"""In the commit of the last of several epochs that were published together: the size of their payloads."""


class ChannelLog:
    """Appends epochs; an epoch is visible once it is durable. Safe to use from several threads.

    `epochs` has what is there, `readers` who needs it, `state` whether more can come. Writers wait for each other and
    for the disk; looking never does, so an event loop may.
    """

    def __init__(self, directory: Path, files: Files) -> None:
        self.id = directory.name
        self.yields = False
        """Whether other channels go first where they cross the same link."""
        self.directory = directory
        self._writing = threading.RLock()
        found = recover(directory, files)
        self._files = ChannelDirectory(directory, files)
        self.state = ChannelState(self.id, end=found.end, standing=found.standing)
        self.epochs = Epochs(self._files, self.state, found)
        self.readers = ChannelReaders(self.state, self.epochs, found.consumers)

    @property
    def first_epoch(self) -> int:
        """The oldest epoch that is kept; equals `next_epoch` when none is."""
        return self.epochs.first

    @property
    def next_epoch(self) -> int:
        """The epoch that is to be published next."""
        return self.state.next_epoch

    @property
    def end(self) -> EndMark | None:
        return self.state.end

    @property
    def successor(self) -> str:
        """Return the channel that continues this one, which has ended in its favour; empty: none does."""
        return self.end.successor_channel if self.end is not None else ""

    @property
    def standing(self) -> Standing | None:
        """The watermark and idleness that the channel last published, even when no consumer needs that epoch any more.

        None when there were none, or when they are not known here: those epochs were never here, or the newest is
        damaged.
        """
        known = self.state.standing
        if known is not None and known.next_epoch == self.next_epoch:
            return known
        with suppress(CorruptEpochError):
            newest = self.epochs.last_manifest
            return newest.standing if newest else None
        return None

    def publish(  # noqa: PLR0913 - what an epoch says beside its rows
        self,
        epoch: int,
        table: pa.Table | None,
        *,
        watermark_us: int | None,
        idle: bool = False,
        commit: Mapping[str, Json] | None = None,
        whole: bool = False,
    ) -> EpochManifest:
        """Append an epoch; it is durable and visible when this returns.

        Rows are grouped by the column `_bin` if there is one. An epoch that is there already is left as it is.

        Raises:
            ChannelError: the epoch is not the next one, the channel has ended, or the disk refused.
        """
        if epoch < self.next_epoch:
            return self.epochs.manifest(epoch)
        encoded: EncodedRows | None = None
        bins: tuple[BinRange, ...] = ()
        if table is not None and table.num_rows:
            grouped, bins = group_by_bin(table)
            encoded = encode(grouped)
        manifest = EpochManifest(epoch, 0, 0, 0, watermark_us, idle, bins, commit or {}, whole=whole)
        return self.append(manifest, encoded)

    def append(self, manifest: EpochManifest, encoded: EncodedRows | None) -> EpochManifest:
        """Like `publish`, with rows that are encoded and grouped already."""
        with self._writing:
            self.append_all([(manifest, encoded)])
            return self.epochs.manifest(manifest.epoch)

    def append_all(self, epochs: Sequence[tuple[EpochManifest, EncodedRows | None]]) -> None:
        """Like `append` for consecutive epochs; they become visible together, with one sync of the directory.

        After an error none of them is visible.
        """
        with self._writing:
            new = [(counted(m, encoded), encoded) for m, encoded in epochs if m.epoch >= self.next_epoch]
            if not new:
                return
            headers: list[EpochHeader] = []
            rows_before = self.epochs.rows
            for manifest, encoded in new:
                self._check_next(manifest.epoch, after=len(headers))
                headers.append(_header(manifest, encoded, rows_before))
                rows_before += manifest.rows
            files = {h.manifest.epoch: pack(h, encoded) for h, (_, encoded) in zip(headers, new, strict=True)}
            self.epochs.add(self._files.commit(files), headers[-1])
        self.state.wake()

    def publish_all(self, epochs: Iterable[EncodedRows], commit: Mapping[str, Json]) -> int:
        """Publish every epoch that the channel will have: all of them become visible, or none does.

        Two epochs are in memory at a time. The last one gets the commit, with the `bytes_out` of all of them. A channel
        that holds epochs already is left as it is.

        Returns:
            Size of all payloads in bytes.

        Raises:
            ChannelError: the channel has ended, or the disk refused.
        """
        with self._writing:
            if self.next_epoch:
                return int(str(self.epochs.manifest(self.next_epoch - 1).commit.get(BYTES_OUT, 0)))
            sizes: dict[int, int] = {}
            size_bytes, rows_before, header = 0, 0, None
            try:
                for encoded, last in with_last(epochs):
                    self._check_next(len(sizes), after=len(sizes))
                    size_bytes += len(encoded.payload)
                    said = {**commit, BYTES_OUT: size_bytes} if last else {}
                    manifest = counted(EpochManifest(len(sizes), 0, 0, 0, None, False, (), said), encoded)
                    header = _header(manifest, encoded, rows_before)
                    rows_before += manifest.rows
                    sizes[len(sizes)] = self._files.prepare(len(sizes), pack(header, encoded))
            except Exception as error:
                self._files.withdraw(sizes)
                if isinstance(error, OSError):
                    raise self._files.error(f"epoch {len(sizes)}", error) from error
                raise
            self._files.commit_prepared(len(sizes))
            if header is not None:
                self.epochs.add(sizes, header)
        self.state.wake()
        return size_bytes

    def put_right(self, manifest: EpochManifest, encoded: EncodedRows | None) -> None:
        """Repair an epoch whose file is damaged with the same epoch from elsewhere; one that is no longer kept stays as
        it is.

        Raises:
            ChannelError: the epoch is not published yet, or the disk refused.
        """
        manifest = counted(manifest, encoded)
        epoch = manifest.epoch
        with self._writing:
            if epoch < self.first_epoch and epoch not in self.epochs:
                return
            if epoch >= self.next_epoch:
                raise ChannelError(f"channel {self.id} never had this epoch", ids=self.state.ids(epoch))
            header = _header(manifest, encoded, self.epochs.rows_before(epoch))
            self.epochs.replace(header, self._files.commit({epoch: pack(header, encoded)})[epoch])

    def begin_at(self, epoch: int, *, standing: Standing | None = None) -> None:
        """Make `epoch` the first one of a log that holds none, because earlier ones cannot be obtained any more.
        Idempotent.

        `standing` is the channel's standing before that epoch, if it is known.

        Raises:
            ChannelError: the log holds epochs.
        """
        with self._writing:
            if epoch == self.next_epoch:
                return
            if epoch < self.next_epoch or self.next_epoch - 1 in self.epochs:
                raise ChannelError(
                    f"channel {self.id} cannot begin at epoch {epoch}: it is at {self.next_epoch}",
                    ids=self.state.ids(),
                )
            if standing is not None:
                # Stored first, so that no crash leaves a log that begins at this epoch without its standing.
                self._store_standing(standing)
            stored = self.readers.stored
            moved = {name: max(cursor, epoch) for name, cursor in stored.cursors.items()}
            self._store_consumers(replace(stored, first_epoch=epoch, cursors=moved), durable=True)
            self.epochs.begin_at(epoch)
        self.state.wake()

    def learn(self, standing: Standing) -> None:
        """Store the standing that this copy's producer sent, if it precedes the next epoch and is not known here.

        Raises:
            ChannelError: the disk refused.
        """
        with self._writing:
            if standing.next_epoch != self.next_epoch or self.standing is not None:
                return
            self._store_standing(standing)
        self.state.wake()

    def finish(self) -> None:
        """End the channel for good: nothing more can be published. Ending it again changes nothing."""
        with self._writing:
            self._end(EndMark(self.next_epoch - 1 if self.next_epoch else None))
        self.state.wake()

    def finish_as(self, end: EndMark) -> None:
        """End a copy as its producer ended the channel, perhaps with a successor. Only the first end counts."""
        with self._writing:
            self._end(end)
        self.state.wake()

    def set_consumers(self, names: Iterable[str]) -> None:
        """Name the consumers: a new one retains every epoch that is kept, a removed one retains nothing. Durable."""
        with self._writing:
            self._change_consumers(self.readers.stored.named(names), durable=True)

    def acknowledge(self, consumer: str, epoch: int) -> None:
        """This consumer needs nothing up to and with `epoch`; epochs that nobody needs are removed.

        A name that is not a consumer and an epoch that was acknowledged before change nothing. Survives the process;
        a power loss may forget it, which only retains more until it is said again.

        Raises:
            ChannelError: the epoch is not published yet.
        """
        with self._writing:
            if epoch >= self.next_epoch:
                raise ChannelError(
                    f"epoch {epoch} of channel {self.id} is not published yet", ids=self.state.ids(epoch)
                )
            self._change_consumers(self.readers.stored.acknowledge(consumer, epoch), durable=False)

    def retain_again(self, consumer: str) -> None:
        """Keep for this consumer all epochs that there are, though it has acknowledged some of them. Durable."""
        with self._writing:
            self._change_consumers(self.readers.stored.renewed(consumer), durable=True)

    def passed_end(self, consumer: str) -> None:
        """This consumer has every epoch of the channel, which has ended, and knows that it has. Durable."""
        with self._writing:
            self._change_consumers(self.readers.stored.passed_end(consumer), durable=True)

    def discard(self) -> None:
        """Remove the channel: those who wait for it get UnknownChannelError. The store removes its files."""
        with self._writing:
            self.state.remove()
        self.state.wake()

    def _change_consumers(self, consumers: Consumers, *, durable: bool) -> None:
        if consumers == self.readers.stored:
            return
        self._store_consumers(consumers, durable=durable)
        reached(FaultPoint.CURSORS_STORED)
        self.epochs.give_up(consumers.first_epoch)

    def _store_consumers(self, consumers: Consumers, *, durable: bool) -> None:
        self._store(CONSUMERS_FILE, consumers.to_json(), durable=durable)
        self.readers.stored = consumers

    def _store_standing(self, standing: Standing) -> None:
        self._store(STANDING_FILE, asdict(standing), durable=True)
        self.state.standing = standing

    def _store(self, name: str, value: object, *, durable: bool) -> None:
        self.state.check_exists()
        self._files.store(name, value, durable=durable)

    def _end(self, end: EndMark) -> None:
        if self.end is None:
            self._store(END_FILE, asdict(end), durable=True)
            reached(FaultPoint.END_STORED)
            self.state.end = end

    def _check_next(self, epoch: int, *, after: int) -> None:
        """Raises ChannelError unless `epoch` is the next one after `after` epochs that are about to be published."""
        self.state.check_exists()
        expected = self.next_epoch + after
        if self.end is not None:
            told, hint = f"channel {self.id} has ended: epoch {epoch} cannot be published", ""
        elif epoch != expected:
            told, hint = f"epoch {epoch} of channel {self.id} is out of order", f"publish epoch {expected} first"
        else:
            return
        raise ChannelError(told, hint=hint, ids=self.state.ids(epoch))


def _header(manifest: EpochManifest, encoded: EncodedRows | None, rows_before: int) -> EpochHeader:
    return EpochHeader(manifest, len(encoded.schema) if encoded else 0, rows_before)
