"""Who reads a channel, how far each reader is, and how many bytes wait for it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping

from site_agent.base.errors import ChannelError
from site_agent.channels.consumers import Consumers
from site_agent.channels.epochs import Epochs
from site_agent.channels.pace import ChannelReader, QueryReaders, ReaderCursors, Waiting
from site_agent.channels.state import ChannelState


class ChannelReaders:
    """The consumers of a channel, which are sites and retain epochs; in a shared channel also the readers at those
    sites."""

    def __init__(self, state: ChannelState, epochs: Epochs, consumers: Consumers) -> None:
        self._state = state
        self._epochs = epochs
        self.stored = consumers
        """As the log has stored them."""
        self._awaited: dict[str, int | None] = {}
        self._cursors = ReaderCursors()
        self._lock = threading.Lock()

    @property
    def consumers(self) -> tuple[str, ...]:
        return tuple(self.stored.cursors)

    @property
    def awaited_bytes(self) -> int:
        """Bytes on disk of the epochs that some consumer has not taken yet, for which the producer may have to wait.

        A consumer that keeps what it took retains more, see `set_awaited`.
        """
        first = min(self._awaited_cursors().values(), default=self._epochs.first)
        return self._epochs.bytes_from(first)

    @property
    def awaited_from(self) -> int:
        """Return the first epoch that some consumer has not taken yet."""
        return min(self._awaited_cursors().values(), default=self._epochs.next)

    @property
    def slowest_consumers(self) -> tuple[str, ...]:
        """The consumers that have taken least."""
        cursors = self._awaited_cursors()
        least = min(cursors.values(), default=0)
        return tuple(name for name, cursor in cursors.items() if cursor == least)

    def acknowledged(self, consumer: str) -> int | None:
        """The newest epoch that this consumer does not need; None if it needs all, or is not a consumer."""
        cursor = self.stored.cursors.get(consumer, 0)
        return cursor - 1 if cursor else None

    def waiting(self) -> tuple[Waiting, ...]:
        """The bytes kept for each query that reads the channel, if queries were named; else for all readers
        together."""
        if not self._cursors.queries:
            return (Waiting("", self.awaited_bytes, self.slowest_consumers),)
        positions = self._cursors.positions(self._awaited_cursors())
        return tuple(
            Waiting(query, 0 if cursor is None else self._epochs.bytes_from(cursor), sites)
            for query, (cursor, sites) in positions.items()
        )

    def drained(self, site: str) -> bool:
        """Return whether all consumers have every epoch of a channel that has ended, and know of its end.

        `site` is the producer's own: its readers see the end in the log itself.
        """
        end = self._epochs.next
        past_end = self.stored.past_end | {site}
        return all(cursor >= end and name in past_end for name, cursor in self._awaited_cursors().items())

    def set_awaited(self, consumer: str, epoch: int | None) -> None:
        """Set how far a consumer that keeps epochs has taken them: it acknowledges less than it has taken.

        It has taken the epochs before `epoch`; None: all that are published. Not stored: until this is called again
        after a restart, all epochs that are not acknowledged count. One caller at a time; never waits for the disk.
        """
        self._awaited = {**self._awaited, consumer: epoch}

    def set_queries(self, queries: Iterable[QueryReaders]) -> None:
        """Set which readers belong to which query in a shared channel; none: all readers count together."""
        with self._lock:
            self._cursors = self._cursors.named(queries)

    def passed(self, site: str, reader: str, cursor: int) -> None:
        """This reader does not need the epochs before `cursor`, though its site may. This removes and stores nothing.

        Raises:
            ChannelError: the cursor is beyond the channel.
        """
        if cursor > self._epochs.next:
            state = self._state
            raise ChannelError(f"epoch {cursor - 1} of channel {state.channel} is not published yet", ids=state.ids())
        with self._lock:
            self._cursors = self._cursors.passed(ChannelReader(site, reader), cursor)

    def _awaited_cursors(self) -> Mapping[str, int]:
        """By consumer, the next epoch that it has not taken."""
        awaited = self._awaited
        return {
            name: self._epochs.next if (said := awaited.get(name, 0)) is None else max(said, cursor)
            for name, cursor in self.stored.cursors.items()
        }
