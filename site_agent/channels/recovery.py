"""Recovers a channel from its directory after a crash at any point."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from site_agent.base.errors import CorruptEpochError
from site_agent.base.files import Files, read_json
from site_agent.channels.consumers import Consumers
from site_agent.channels.epoch_file import read_header
from site_agent.channels.manifest import EndMark, Fork, Standing

_EPOCH_NAME = re.compile(r"(\d{12,})\.epoch")

_log = logging.getLogger(__name__)

CONSUMERS_FILE = "consumers.json"
END_FILE = "end.json"
STANDING_FILE = "standing.json"
"""The file with the standing before the first epoch that was ever here, which no epoch file holds."""
WHOLE_FILE = "whole.json"
"""The file with the number of epochs to be renamed, from the first on: they become visible together."""


def epoch_path(directory: Path, epoch: int) -> Path:
    return directory / f"{epoch:012d}.epoch"


def temporary_path(directory: Path, epoch: int) -> Path:
    return directory / f"{epoch:012d}.tmp"


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was found on disk."""

    sizes: dict[int, int]
    """File size in bytes of each epoch that is there, without gaps."""
    consumers: Consumers
    end: EndMark | None
    standing: Standing | None


def recover(directory: Path, files: Files) -> Recovered:
    """Recover a channel by the names and sizes of its files, and remove what no committed epoch needs."""
    _finish_renames(directory, files)
    found: dict[int, int] = {}
    for path in directory.iterdir():
        match = _EPOCH_NAME.fullmatch(path.name)
        if match:
            found[int(match[1])] = path.stat().st_size
        elif path.name.endswith(".tmp"):
            files.remove(path)
    sizes = _newest_run(found)
    for epoch in found.keys() - sizes.keys():
        files.remove(epoch_path(directory, epoch))
    # A process that died between rename and sync left an epoch that becomes visible now: sync its rename.
    files.sync_directory(directory)
    consumers, end = _read_consumers(directory / CONSUMERS_FILE), _read_end(directory / END_FILE)
    return Recovered(sizes, consumers, end, _read_standing(directory / STANDING_FILE))


def rows_before(directory: Path, epoch: int, kept: Iterable[int]) -> int:
    """The number of rows before this epoch, by the nearest kept epoch before it; 0 when none can be read."""
    for older in range(epoch - 1, min(kept, default=epoch) - 1, -1):
        with suppress(CorruptEpochError):
            header = read_header(epoch_path(directory, older))
            return header.rows_before + header.manifest.rows
    return 0


def _finish_renames(directory: Path, files: Files) -> None:
    """Rename the epochs that become visible together: all of them were written before their number was stored."""
    whole = read_json(directory / WHOLE_FILE)
    if whole is None:
        return
    for epoch in range(whole["epochs"]):
        if temporary_path(directory, epoch).exists():
            files.replace(temporary_path(directory, epoch), epoch_path(directory, epoch))
    files.sync_directory(directory)
    files.remove(directory / WHOLE_FILE)


def _newest_run(found: dict[int, int]) -> dict[int, int]:
    """The last run of epochs without gaps. Only trimming makes gaps (a power loss may undo removals), so epochs below
    the last gap were trimmed."""
    epoch = max(found, default=-1)
    run: dict[int, int] = {}
    while epoch in found:
        run[epoch] = found[epoch]
        epoch -= 1
    return dict(sorted(run.items()))


def _read_consumers(path: Path) -> Consumers:
    value = read_json(path)
    if value is None:
        return Consumers()
    try:
        return Consumers.from_json(value)
    except (KeyError, TypeError, ValueError, AttributeError):
        _log.warning("%s is damaged; everything is kept until the consumers are named again", path)
        return Consumers()


def _read_end(path: Path) -> EndMark | None:
    value = read_json(path)
    if value is None:
        return None
    # An agent of an earlier version has written nothing of what concerns successors.
    return EndMark(
        value["last_epoch"],
        value["successor_channel"],
        value["successor_site"],
        value.get("closed_us"),
        value.get("cursors", {}),
        value.get("rows_late", 0),
        value.get("totals", {}),
        Fork(**value["fork"]) if value.get("fork") else None,
        value.get("dropped", {}),
    )


def _read_standing(path: Path) -> Standing | None:
    value = read_json(path)
    if value is None:
        return None
    return Standing(value["next_epoch"], value["watermark_us"], value["idle"], value.get("whole", False))
