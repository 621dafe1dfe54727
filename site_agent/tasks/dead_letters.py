"""Where malformed rows go: for each epoch that had some, one file of JSON lines at the site.

The file is complete on disk before its epoch is published, and named by the epoch: when a crash makes the epoch run
again, the file is written again, with the same rows. Nothing here is ever removed but by who runs the site.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from machine.clock import Clock
from site_agent.base.durable import replacing
from site_agent.base.posix import sync_directory
from site_agent.engine import MalformedRow, MalformedSink

logger = logging.getLogger(__name__)

DIRECTORY_NAME = "dead-letters"
"""Directory in a site's data, with one of each task in it."""


class DeadLetters:
    """The malformed rows of one task; `directory` is made with the first of them."""

    def __init__(self, directory: Path, *, relation: str, site: str, clock: Clock) -> None:
        self._directory = directory
        self._relation = relation
        self._site = site
        self._clock = clock

    def sink(self, epoch: int) -> MalformedSink:
        """What takes the rows of an epoch that is about to run; what an earlier attempt at it left is removed."""
        self._path(epoch).unlink(missing_ok=True)
        return partial(self._write, epoch)

    def _write(self, epoch: int, rows: Iterator[MalformedRow]) -> None:
        if not self._directory.exists():
            self._directory.mkdir(parents=True)
            for made in (self._directory.parent, self._directory.parent.parent):
                sync_directory(made)
        about = {"time": self._clock.now().isoformat(), "relation": self._relation, "site": self._site}
        path, count = self._path(epoch), 0
        with replacing(path) as file:
            for row in rows:
                letter = {**about, "file": row.file, "reason": row.reason, "row": row.row}
                file.write(json.dumps(letter, ensure_ascii=False).encode(errors="replace") + b"\n")
                count += 1
        logger.warning(
            "relation=%s site=%s: %d malformed rows set aside in %s", self._relation, self._site, count, path
        )

    def _path(self, epoch: int) -> Path:
        return self._directory / f"{epoch:012d}.jsonl"
