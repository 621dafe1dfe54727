"""The pushed streams of one site, a log for each, from CREATE STREAM until DROP, whether or not a query reads them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from contract.times import to_us
from machine.clock import Clock
from site_agent.base.errors import IngestError, PushRequestError, SiteAgentError, UnknownStreamError
from site_agent.base.offload import Offload
from site_agent.ingest import PushedStream, StreamLog
from site_agent.ingest.files import LogFiles
from site_agent.ingest.intake import Intake
from site_agent.ingest.log import PushLog
from site_agent.ingest.options import limits_of
from site_agent.ingest.rows import RowFormat

logger = logging.getLogger(__name__)

DIRECTORY_NAME = "ingest"
TRIM_INTERVAL_S = 10.0


@dataclass(frozen=True, slots=True)
class _Entry:
    stream: PushedStream
    state: Intake | SiteAgentError
    """The error that keeps clients from pushing to it, or what takes their pushes."""


class PushStreams:
    """Reconciled with the assignment by `apply`; the service and source tasks look streams up here."""

    def __init__(self, site: str, directory: Path, *, clock: Clock, files: LogFiles | None = None) -> None:
        self._site = site
        self._root = directory / DIRECTORY_NAME
        self._clock = clock
        self._files = files or LogFiles()
        self._offload = Offload("selat-ingest")
        self._entries: dict[str, _Entry] = {}
        self._trimming: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    async def apply(self, streams: Iterable[PushedStream]) -> None:
        """Open the logs of new streams, change options and readers, delete the logs of dropped streams."""
        async with self._lock:
            wanted = {_key(stream.name, stream.created_at): stream for stream in streams}
            for key in sorted(self._entries.keys() - wanted.keys()):
                await self._close(self._entries.pop(key))
            await self._offload.run(self._remove_but, wanted.keys())
            for key in sorted(wanted):
                self._entries[key] = entry = await self._updated(key, wanted[key])
                if isinstance(entry.state, Intake):
                    entry.state.log.room.set_readers(wanted[key].readers)
            if self._entries and self._trimming is None:
                self._trimming = asyncio.create_task(self._trim(), name=f"trim-{self._site}")

    def intake(self, stream: str, site: str) -> Intake:
        """What takes pushes to the stream.

        Raises:
            PushRequestError: no stream or site is named.
            UnknownStreamError: the stream is not pushed to at this site, or the site is another.
            SiteAgentError: its options are wrong, or its log is damaged.
        """
        if not stream or not site:
            raise PushRequestError("a push names its stream and its site", hint="set stream and site")
        if site != self._site:
            raise UnknownStreamError(
                f"this is site {self._site}, not {site[:128]}", hint="ask the master for the site's address"
            )
        for entry in self._entries.values():
            if entry.stream.name.lower() == stream.lower():
                if isinstance(entry.state, SiteAgentError):
                    raise entry.state
                return entry.state
        raise UnknownStreamError(
            f"no stream {stream[:128]!r} is pushed to at site {self._site}",
            hint="is it created, with 'connector' = 'push' at this site? a new one takes a moment to get here",
            ids={"stream": stream[:128], "site": self._site},
        )

    def log(self, relation: str, created_at: datetime) -> PushLog:
        """The log that a source task reads.

        Raises:
            SiteAgentError: there is none, or it cannot be used.
        """
        entry = self._entries.get(_key(relation, created_at))
        if entry is None:
            raise UnknownStreamError(f"the site has no log of stream {relation}", ids={"stream": relation})
        if isinstance(entry.state, SiteAgentError):
            raise entry.state
        return entry.state.log

    def use(self) -> tuple[StreamLog, ...]:
        """How much each log holds, by stream. Blocks."""
        entries = sorted(self._entries.values(), key=lambda entry: entry.stream.name.lower())
        return tuple(_use(entry) for entry in entries)

    async def close(self) -> None:
        """Refuse waiting pushes; the logs stay on disk."""
        if self._trimming is not None:
            self._trimming.cancel()
            await asyncio.gather(self._trimming, return_exceptions=True)
        for entry in self._entries.values():
            await self._close(entry)
        self._entries.clear()
        self._offload.close()

    async def _updated(self, key: str, stream: PushedStream) -> _Entry:
        known = self._entries.get(key)
        if known is not None and known.stream == stream and isinstance(known.state, Intake):
            return known
        try:
            limits = limits_of(stream.options)
            if known is not None and isinstance(known.state, Intake):
                known.state.log.room.set_limits(limits)
                return _Entry(stream, known.state)
            rows = RowFormat(stream.columns)
            log = await self._offload.run(
                PushLog, self._root / key, rows.schema, limits=limits, clock=self._clock, files=self._files
            )
            if stream.by_arrival:
                await self._offload.run(log.order_arrivals)
        except SiteAgentError as error:
            logger.error("stream=%s site=%s cannot be pushed to: %s", stream.name, self._site, error.message)  # noqa: TRY400
            return _Entry(stream, error if known is None or not isinstance(known.state, Intake) else known.state)
        logger.info("stream=%s site=%s is pushed to, from record %d on", stream.name, self._site, log.kept.next_record)
        return _Entry(stream, Intake(stream.name, log, rows, self._offload))

    async def _close(self, entry: _Entry) -> None:
        if isinstance(entry.state, Intake):
            await entry.state.close()

    def _remove_but(self, keys: Iterable[str]) -> None:
        """Delete the logs of dropped streams, also of those that were dropped while this agent was down."""
        keep = set(keys)
        for directory in self._root.iterdir() if self._root.exists() else ():
            if directory.name not in keep:
                logger.info("site=%s removes the log %s of a dropped stream", self._site, directory.name)
                self._files.remove_tree(directory)

    async def _trim(self) -> None:
        while True:
            await self._clock.sleep(TRIM_INTERVAL_S)
            for entry in tuple(self._entries.values()):
                if isinstance(entry.state, Intake):
                    # If the disk refuses now, the next round tries again.
                    with suppress(IngestError):
                        await self._offload.run(entry.state.log.trim)


def _key(relation: str, created_at: datetime) -> str:
    """A directory name: a stream that is dropped and created again is another stream."""
    return f"{relation.lower()}-{to_us(created_at)}"


def _use(entry: _Entry) -> StreamLog:
    name, state = entry.stream.name, entry.state
    return state.log.use(name) if isinstance(state, Intake) else StreamLog(name, reason=state.message)
