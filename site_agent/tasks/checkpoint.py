"""Progress of a merge or a combining task on disk: how far each channel is read, and the rows of open windows then.

In the task's directory: files with rows first, then `checkpoint.json`, whose rename makes all of them count. Channels
are acknowledged only up to a checkpoint, so everything after it can be read again.

The files are runs (`run-<n>-<view>-<k>.rows`). A checkpoint writes what came since the one before as a run, and names
it and the runs that have open rows still. Earlier versions wrote all rows each time, in `state-<n>-<view>.arrow`.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa

from machine.faults import reached
from planner.values.names import INPUT_VIEW
from site_agent.base.disk import disk_error
from site_agent.base.durable import write_atomically
from site_agent.base.faults import FaultPoint
from site_agent.channels.manifest import LateEpochs
from site_agent.state.runs import DamagedStateError, RunFile, RunName, open_run
from site_agent.tasks.progress import Totals
from site_agent.tasks.views import Rows


@dataclass(frozen=True, slots=True)
class Closing:
    """Windows that are closed range by range of their groups' bins, each an epoch of its own."""

    watermark_us: int
    """All windows that end by then, and were not closed, close."""
    idle: bool
    """Whether the last of the epochs says that the task is idle."""


@dataclass(frozen=True, slots=True)
class Succession:
    """Records how far a task has come that takes another one's place."""

    predecessor: str
    """The other task's channel."""
    heard: int = 0
    """The next epoch of that channel whose rows are not among the totals."""
    from_epoch: int | None = None
    """The first epoch of the task's own channel; None: it has not taken over, and publishes nothing."""
    closed_us: int | None = None
    """Windows that end by then were emitted by the predecessor."""
    idle: bool = False
    """The predecessor was idle at its end."""
    taken: Mapping[str, int] = field(default_factory=dict)
    """It holds, by input, the next epoch at the predecessor's end; the predecessor has reported late rows before it."""
    of_others: bool = False
    """The task reads other channels than its predecessor did, in which no rows are late."""
    dropped: LateEpochs = field(default_factory=dict)
    """It holds, for sessions, the epochs of which the predecessor dropped late rows and which the task takes again."""

    @property
    def taken_over(self) -> bool:
        return self.from_epoch is not None


@dataclass(frozen=True, slots=True)
class Checkpoint:
    number: int = 0
    cursors: Mapping[str, int] = field(default_factory=dict)
    """Next epoch to read, by channel."""
    ended: tuple[str, ...] = ()
    """Channels that ended for good and are read to their end; they may be gone by now."""
    closed_us: int | None = None
    """Windows up to here are not in the state."""
    watermark_us: int | None = None
    totals: Totals = field(default_factory=Totals)
    counted: Mapping[str, int] = field(default_factory=dict)
    """It holds by channel the next epoch that is not among the totals, where that is beyond the cursor: the epochs
    before it were read before a crash, and are read again."""
    out: int | None = None
    """Of a task that reads its own channel after a crash: the first epoch that is not in the state."""
    closing: Closing | None = None
    """What was begun with this checkpoint, and is over when the channel has its watermark."""
    succession: Succession | None = None
    """It is set for a task that takes another one's place, or has done so once."""
    dropped: LateEpochs = field(default_factory=dict)
    """It holds, for sessions, the epochs of which a successor with an earlier checkpoint has to drop late rows."""


@dataclass(frozen=True, slots=True)
class SavedState:
    """A task's last checkpoint, and where its rows are."""

    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    rows: Rows = field(default_factory=dict)
    """Of a checkpoint that an earlier version wrote."""
    runs: Mapping[str, tuple[RunFile, ...]] = field(default_factory=dict)


class CheckpointStore:
    """Checkpoints of one task in its own directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.pinned: frozenset[str] = frozenset()
        """Files that stay although no checkpoint names them any more: somebody reads them."""
        directory.mkdir(parents=True, exist_ok=True)

    def load_state(self) -> SavedState:
        """The last checkpoint with its runs, of whose rows nothing is read; the empty one when there is none.

        Raises:
            SiteAgentError: a file is damaged.
        """
        value = self._content()
        if value is None:
            return SavedState()
        with self._telling_damage():
            names = {view: tuple(map(RunName.from_json, runs)) for view, runs in value.get("runs", {}).items()}
            checkpoint, rows = checkpoint_of(value), {} if "runs" in value else self._states(value)
        runs = {view: tuple(open_run(self._directory, name) for name in found) for view, found in names.items()}
        return SavedState(checkpoint, rows, runs)

    def run_path(self, number: int, view: str, place: int) -> Path:
        """The file of a run that the checkpoint of that number is the first to name."""
        return self._directory / f"run-{number}-{view}-{place}.rows"

    def save_state(self, checkpoint: Checkpoint, runs: Mapping[str, Sequence[RunName]]) -> None:
        """Make this the last checkpoint, with runs that are durable; files that it does not name are removed.

        Raises:
            ChannelError: the disk refuses; the checkpoint before it counts.
        """
        named = {view: [name.to_json() for name in found] for view, found in sorted(runs.items())}
        with self._telling_refusal():
            self._replace({**described(checkpoint), "runs": named})
            self._remove_files_but({name.file for found in runs.values() for name in found})

    def _content(self) -> dict[str, Any] | None:
        path = self._directory / "checkpoint.json"
        if not path.exists():
            return None
        with self._telling_damage():
            return unsealed(json.loads(path.read_bytes()))

    def _replace(self, content: Mapping[str, Any]) -> None:
        write_atomically(self._directory / "checkpoint.json", json.dumps(sealed(content)).encode())
        reached(FaultPoint.CHECKPOINT_SAVED)

    def _states(self, value: Mapping[str, Any]) -> Rows:
        states = value["states"] if "states" in value else _only_state(value)
        return {view: self._load_state(state["file"], state["crc32"]) for view, state in states.items()}

    @contextmanager
    def _telling_damage(self) -> Iterator[None]:
        """Raises SiteAgentError for all that damaged files lead to."""
        try:
            yield
        except (ValueError, KeyError, TypeError, AttributeError, OSError, pa.ArrowInvalid) as error:
            path = self._directory / "checkpoint.json"
            raise DamagedStateError(f"the checkpoint {path} cannot be read: {error}") from error

    @contextmanager
    def _telling_refusal(self) -> Iterator[None]:
        """Raises ChannelError for an error of the disk."""
        try:
            yield
        except OSError as error:
            task = self._directory.name
            raise disk_error(f"the checkpoint of {task}", error, ids={"task": task}) from error

    def _load_state(self, name: str, crc32: int) -> pa.Table:
        data = (self._directory / name).read_bytes()
        if zlib.crc32(data) != crc32:
            raise ValueError(f"{name} does not match its checksum")
        return pa.ipc.open_file(pa.py_buffer(data)).read_all()

    def _remove_files_but(self, names: Collection[str]) -> None:
        for pattern in ("state-*.arrow", "run-*.rows"):
            for path in self._directory.glob(pattern):
                if path.name not in names and path.name not in self.pinned:
                    path.unlink()
                    reached(FaultPoint.STATE_REMOVED)


def described(checkpoint: Checkpoint) -> dict[str, Any]:
    """Return a checkpoint as JSON, but for its rows."""
    closing = checkpoint.closing
    return {
        "number": checkpoint.number,
        "cursors": dict(checkpoint.cursors),
        "ended": list(checkpoint.ended),
        "closed_us": checkpoint.closed_us,
        "watermark_us": checkpoint.watermark_us,
        "totals": checkpoint.totals.to_json(),
        "counted": dict(checkpoint.counted),
        "out": checkpoint.out,
        "closing": None if closing is None else {"watermark_us": closing.watermark_us, "idle": closing.idle},
        "succession": None if checkpoint.succession is None else asdict(checkpoint.succession),
        "dropped": dict(checkpoint.dropped),
    }


def checkpoint_of(value: Mapping[str, Any]) -> Checkpoint:
    """Return the checkpoint that `described` made JSON of. Raises KeyError or TypeError when it is none."""
    closing = value.get("closing")
    return Checkpoint(
        value["number"],
        value["cursors"],
        tuple(value["ended"]),
        value["closed_us"],
        value["watermark_us"],
        Totals.from_json(value["totals"]),
        value.get("counted", {}),
        value.get("out"),
        None if closing is None else Closing(closing["watermark_us"], closing["idle"]),
        None if value.get("succession") is None else Succession(**value["succession"]),
        value.get("dropped", {}),
    )


def _only_state(value: Mapping[str, Any]) -> dict[str, Any]:
    """As merges wrote it that had one view."""
    return {INPUT_VIEW: {"file": value["state"], "crc32": value["state_crc32"]}} if value["state"] else {}


def sealed(content: Mapping[str, Any]) -> dict[str, Any]:
    """With a checksum: a changed digit of a cursor is still JSON, and would lose rows."""
    return {**content, "crc32": _crc32(content)}


def unsealed(value: dict[str, Any]) -> dict[str, Any]:
    """Raises KeyError or ValueError when it is not what `sealed` made."""
    crc32 = value.pop("crc32")
    if _crc32(value) != crc32:
        raise ValueError("it does not match its checksum")
    return value


def _crc32(content: Mapping[str, Any]) -> int:
    return zlib.crc32(json.dumps(content, sort_keys=True).encode())
