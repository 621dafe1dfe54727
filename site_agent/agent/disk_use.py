"""Bytes on a site's disk by query, and the budget beyond which tasks take no more rows from outside."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from machine.clock import Clock
from planner.graph.ids import TaskId
from site_agent.channels.store import ChannelStore
from site_agent.connectors.files.prepared import SHARED_NAME
from site_agent.ingest.streams import DIRECTORY_NAME as INGEST
from site_agent.tasks.dead_letters import DIRECTORY_NAME as DEAD_LETTERS

LOOK_EVERY_S = 10.0
"""Seconds between measurements of directories. Channels always know their own sizes."""

TASKS = "tasks"
SOURCES = "sources"


@dataclass(frozen=True, slots=True)
class DiskUse:
    """The bytes that a site keeps on disk, without Spark's scratch files."""

    queries: Mapping[str, int] = field(default_factory=dict)
    """By query: its channels and copies of channels, checkpoints, source positions, and malformed rows."""
    replay_bytes: int = 0
    """Sorted copies of files, which several queries may share."""
    stream_log_bytes: int = 0
    """The logs of pushed streams."""
    budget_bytes: int = 0
    """0: there is none."""
    free_bytes: int = 0
    """On the file system, as available to this user."""

    @property
    def used_bytes(self) -> int:
        return sum(self.queries.values()) + self.replay_bytes + self.stream_log_bytes


class SiteDisk:
    """Measures the disk use of one site."""

    def __init__(self, directory: Path, channels: ChannelStore, *, clock: Clock, budget_bytes: int = 0) -> None:
        """
        Args:
            directory: The site's own.
            channels: Those of the site.
            clock: Says when the directories are to be measured again.
            budget_bytes: While more is kept, `why_full` has a reason; 0: it never has.
        """
        self._directory = directory
        self._channels = channels
        self._clock = clock
        self._budget_bytes = budget_bytes
        self._looked_s: float | None = None
        self._directories = DiskUse(budget_bytes=budget_bytes)

    def measure(self) -> DiskUse:
        """The use now; blocks when the directories are due to be measured again."""
        now_s = self._clock.monotonic()
        if self._looked_s is None or now_s - self._looked_s >= LOOK_EVERY_S:
            self._directories, self._looked_s = self._look(), now_s
        return self._with_channels()

    def why_full(self) -> str:
        """The reason why tasks must not read new rows; empty when they may. Does not block."""
        if not self._budget_bytes:
            return ""
        use = self._with_channels()
        if use.used_bytes <= self._budget_bytes:
            return ""
        told = f"the site keeps {use.used_bytes} bytes on disk, and its budget is {self._budget_bytes}"
        if not use.queries:
            return told
        query = max(use.queries, key=lambda name: (use.queries[name], name))
        return f"{told}; most of a query is {use.queries[query]}, of {query}"

    def _with_channels(self) -> DiskUse:
        found = self._directories
        queries = Counter(found.queries)
        for channel, size_bytes in self._channels.retained_by_channel().items():
            queries[_query_of(channel)] += size_bytes
        return DiskUse(
            {query: size_bytes for query, size_bytes in sorted(queries.items()) if size_bytes},
            found.replay_bytes,
            found.stream_log_bytes,
            found.budget_bytes,
            found.free_bytes,
        )

    def _look(self) -> DiskUse:
        queries = Counter[str]()
        for parent in (TASKS, SOURCES, DEAD_LETTERS):
            for path in _children(self._directory / parent):
                if path.name != SHARED_NAME:
                    queries[_query_of(path.name)] += tree_bytes(path)
        return DiskUse(
            queries,
            tree_bytes(self._directory / SOURCES / SHARED_NAME),
            tree_bytes(self._directory / INGEST),
            self._budget_bytes,
            shutil.disk_usage(self._directory).free,
        )


def tree_bytes(directory: Path) -> int:
    """The total size of all files below a directory; 0 when there is none. Files that vanish meanwhile count as 0."""
    total_bytes = 0
    for root, _, names in os.walk(directory):
        for name in names:
            with suppress(FileNotFoundError):
                total_bytes += os.lstat(os.path.join(root, name)).st_size
    return total_bytes


def _children(directory: Path) -> list[Path]:
    return sorted(directory.iterdir()) if directory.is_dir() else []


def _query_of(task: str) -> str:
    """The query that a directory's task or channel belongs to; for a directory that is not named after a task, its
    name."""
    try:
        return TaskId.parse(task).query
    except ValueError:
        return task
