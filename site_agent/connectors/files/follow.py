"""`files` in mode `follow`: new files of a directory, in the order of their discovery, each exactly once."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path

from contract.times import from_us, to_us
from planner.relations.catalog import ARRIVED
from planner.relations.connectors.files import END, FORMAT, MAX_FILES, PATH, PATTERN, UNTIL
from site_agent.base.errors import ConnectorError
from site_agent.connectors.files.discovery import DiscoveryLog
from site_agent.connectors.files.listing import FoundFile, complete_files
from site_agent.connectors.files.options import reader_options
from site_agent.connectors.paths import ANYWHERE, AllowedPaths
from site_agent.connectors.sources import Offset, Poll, ReadLimit, SourceContext
from site_agent.engine import Field, FilesScan, Scan

logger = logging.getLogger(__name__)

LOG_NAME = "discovered.jsonl"
SEEN = "seen_us"


class FollowSource:
    """The offset is the number of files read, in the order of the discovery log.

    Of a stream by arrival, it also has the time before which nothing is discovered any more. So this is committed with
    the watermark that follows it, and holds when the clock has gone back meanwhile.
    """

    def __init__(self, context: SourceContext, allowed: AllowedPaths = ANYWHERE) -> None:
        options = context.options
        self._allowed = allowed
        self._context = context
        self._root = Path(PATH.of(options))
        self._pattern = PATTERN.of(options)
        self._bounded = UNTIL.of(options) == END
        self._max_files = MAX_FILES.of(options)
        self._log: DiscoveryLog | None = None

    def initial(self) -> Offset:
        return {"files": 0}

    def poll(self, start: Offset, *, now: datetime, limit: ReadLimit) -> Poll:
        """See `Source.poll`."""
        log = self._opened()
        at_us = max(to_us(now), _seen_us(start), *log.times_us[-1:])
        if not log.ended:
            found = complete_files(self._root, self._pattern, self._allowed)
            log.add(found, at_us=at_us, last=self._bounded)
        first = _position(start, log)
        end = first + _count(log.files[first:], limit.size_bytes, self._max_files)
        empty, ended = end == first, log.ended and end == len(log.files)
        if not self._context.by_arrival:
            return Poll({"files": end}, empty=empty, ended=ended)
        floor_us = at_us if end == len(log.files) else log.times_us[end]
        return Poll({"files": end, SEEN: floor_us}, empty=empty, ended=ended, event_time_floor_us=floor_us)

    def scan(self, start: Offset, end: Offset) -> Scan:
        """See `Source.scan`.

        Raises:
            ConnectorError: a file is gone or not what it was, or leads elsewhere by now.
        """
        log = self._opened()
        first, last = _position(start, log), _position(end, log)
        files = log.files[first:last]
        self._allowed.check_files(found.path for found in files)
        for found in files:
            _verify(found)
        context = self._context
        arrival = (Field(context.event_time, ARRIVED.type),) if context.by_arrival else ()
        times = zip(files, log.times_us[first:last], strict=True) if arrival else ()
        return FilesScan(
            format=FORMAT.of(context.options),
            paths=tuple(f.path for f in files),
            columns=context.columns,
            read_columns=context.read_columns,
            options=reader_options(context.options),
            partitioned_by=arrival,
            partitions={found.path: (from_us(time_us).isoformat(),) for found, time_us in times},
        )

    def reconfigure(self, options: Mapping[str, str]) -> None:
        """Take over `max_files_per_epoch`; nothing else can change while files are read."""
        self._max_files = MAX_FILES.of(options)
        logger.info(
            "relation=%s site=%s: changed options take effect for new queries only, except %s",
            self._context.relation,
            self._context.site,
            MAX_FILES.name,
        )

    def close(self) -> None:
        """Nothing is held."""

    def _opened(self) -> DiscoveryLog:
        if self._log is None:
            self._log = DiscoveryLog(self._context.directory / LOG_NAME)
        return self._log


def _seen_us(offset: Offset) -> int:
    seen_us = offset.get(SEEN, 0)
    return seen_us if isinstance(seen_us, int) else 0


def _position(offset: Offset, log: DiscoveryLog) -> int:
    position = offset["files"]
    if not isinstance(position, int) or position > len(log.files):
        raise ConnectorError(
            f"{position} files were read, but only {len(log.files)} are known to have been discovered",
            hint="the source's directory has lost its discovery log; start the query anew",
        )
    return position


def _count(files: Sequence[FoundFile], limit_bytes: int, limit_files: int | None) -> int:
    """How many files an epoch takes: one at least, if there is one."""
    total_bytes = 0
    for count, found in enumerate(files):
        total_bytes += found.size_bytes
        if count and (total_bytes > limit_bytes or count == limit_files):
            return count
    return len(files)


def _verify(found: FoundFile) -> None:
    try:
        size_bytes = Path(found.path).stat().st_size
    except OSError as error:
        raise ConnectorError(
            f"{found.path} was discovered and cannot be read any more: {error.strerror}",
            hint="files of a followed directory must stay until they were read",
        ) from error
    if size_bytes != found.size_bytes:
        raise ConnectorError(
            f"{found.path} had {found.size_bytes} bytes when it was discovered and has {size_bytes} now",
            hint="write files under a name that ends in .tmp, and rename them when they are complete",
        )
