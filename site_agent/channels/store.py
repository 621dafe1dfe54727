"""All channels on this site's disk, its own and the router's copies: one directory each."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from machine.faults import reached
from site_agent.base.errors import ChannelRequestError, UnconfirmedChannelsError, UnknownChannelError
from site_agent.base.faults import FaultPoint
from site_agent.base.files import Files
from site_agent.base.waiters import Waiters
from site_agent.channels.log import ChannelLog

_CHANNEL_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,199}")
_REMOVED_PREFIX = ".removed-"


class ChannelStore:
    """Opens each channel once. Safe to use from several threads, but not from several processes."""

    def __init__(self, root: Path, files: Files | None = None) -> None:
        self.root = root
        self.files = files or Files()
        self._lock = threading.RLock()
        self._open: dict[str, ChannelLog] = {}
        self._waiters = Waiters()
        self.confirmed = True
        """False: the master has not yet said, since the agent started or lost it, which channels there are."""
        self.files.make_directory(root)
        for leftover in root.glob(f"{_REMOVED_PREFIX}*"):
            self.files.remove_tree(leftover)

    def open(self, channel_id: str) -> ChannelLog:
        """The channel, created if there is none; always the same object.

        Raises:
            ChannelRequestError: the id has characters other than letters, digits, `-`, `_`, `.`, or begins with a dot.
        """
        if not _CHANNEL_ID.fullmatch(channel_id):
            raise ChannelRequestError(
                f"{channel_id!r} is no channel id",
                hint="letters, digits, '-', '_' and '.', not beginning with a dot, at most 200",
            )
        with self._lock:
            log = self._open.get(channel_id)
            if log is None:
                directory = self.root / channel_id
                if not directory.is_dir():
                    self.files.make_directory(directory)
                    self.files.sync_directory(self.root)
                log = self._open[channel_id] = ChannelLog(directory, self.files)
                self._waiters.wake()
            return log

    def get(self, channel_id: str) -> ChannelLog:
        """The channel, if there is one.

        Raises:
            UnknownChannelError: there is none.
            UnconfirmedChannelsError: there is none yet, and the master may still say that there is to be one.
            ChannelRequestError: as `open`.
        """
        with self._lock:
            if channel_id not in self._open and not (
                _CHANNEL_ID.fullmatch(channel_id) and (self.root / channel_id).is_dir()
            ):
                if not self.confirmed:
                    raise UnconfirmedChannelsError(
                        f"no channel {channel_id} here yet: the agent has not heard from the master again",
                        ids={"channel": channel_id},
                    )
                raise UnknownChannelError(f"no channel {channel_id} here", ids={"channel": channel_id})
            return self.open(channel_id)

    async def find(self, channel_id: str, *, within_s: float) -> ChannelLog:
        """Like `get`, but waits for up to this time for a channel that is not there yet."""
        if _CHANNEL_ID.fullmatch(channel_id):
            with suppress(TimeoutError):
                async with asyncio.timeout(within_s):
                    await self._waiters.until(lambda: self._exists(channel_id))
        return self.get(channel_id)

    def _exists(self, channel_id: str) -> bool:
        return channel_id in self._open or (self.root / channel_id).is_dir()

    def ids(self) -> tuple[str, ...]:
        """The ids of all channels, in order."""
        return tuple(sorted(entry.name for entry in self.root.iterdir() if _CHANNEL_ID.fullmatch(entry.name)))

    def remove(self, channel_id: str) -> None:
        """Remove a channel and its epochs; nothing happens if there is none. Its readers get UnknownChannelError."""
        with self._lock:
            log = self._open.pop(channel_id, None)
            if log is not None:
                log.discard()
            directory = self.root / channel_id
            if _CHANNEL_ID.fullmatch(channel_id) and directory.is_dir():
                # Renamed first: a crash in between must not leave half a channel that looks complete.
                doomed = self.root / f"{_REMOVED_PREFIX}{channel_id}"
                self.files.remove_tree(doomed)
                self.files.replace(directory, doomed)
                reached(FaultPoint.CHANNEL_DOOMED)
                self.files.remove_tree(doomed)

    def retained_by_channel(self) -> Mapping[str, int]:
        """Disk bytes of the epochs that someone still needs, by channel, of the channels opened so far."""
        with self._lock:
            return {name: log.epochs.retained_bytes for name, log in self._open.items()}
