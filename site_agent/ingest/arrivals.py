"""The times at which the records of a log arrive: they never go back, whatever the clock does and whoever is killed."""

from __future__ import annotations

import json
from pathlib import Path

from site_agent.base.errors import CorruptLogError
from site_agent.ingest.files import LogFiles

PROMISE_NAME = "arrivals.json"
STEP_US = 100_000
"""Promises are renewed so often: each is a file that is synced."""


class Arrivals:
    """Used under the log's lock. `promise` is for readers, who publish it as their watermark: it has to hold after a
    crash, too, and is on disk before it is given.
    """

    def __init__(self, directory: Path, files: LogFiles, *, newest_us: int) -> None:
        """`newest_us`: the newest time of a record that the log holds.

        Raises:
            CorruptLogError: the promise cannot be read.
        """
        self._path = directory / PROMISE_NAME
        self._files = files
        self._promised_us = self._read()
        self._newest_us = max(newest_us, self._promised_us)

    def next_us(self, clock_us: int) -> int:
        """The time of records that are stored now."""
        self._newest_us = max(self._newest_us, clock_us)
        return self._newest_us

    def promise(self, clock_us: int) -> int:
        """A time before which no record arrives from now on.

        Raises:
            OSError: the disk refused.
        """
        wanted_us = self.next_us(clock_us)
        if wanted_us >= self._promised_us + STEP_US:
            self._files.create(self._path, json.dumps({"promised_us": wanted_us}).encode())
            self._promised_us = wanted_us
        return self._promised_us

    def _read(self) -> int:
        try:
            return int(json.loads(self._path.read_bytes())["promised_us"])
        except FileNotFoundError:
            return 0
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptLogError(
                f"{self._path} is damaged: {error}", hint="remove it, if the site's clock has not gone back since"
            ) from error
