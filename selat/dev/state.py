"""Records which clusters run: in their data directories, and for each user the latest one."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from machine.private import NotPrivateError, make_private
from selat.local.errors import DevError
from selat.local.files import read_json, write_json
from selat.local.identity import ProcessIdentity

DEFAULT_DATA = Path(".selat")


@dataclass(frozen=True, slots=True)
class ClusterState:
    """A cluster as its state file describes it."""

    supervisor: ProcessIdentity
    master: str
    """host:port"""
    topology: str
    ready: bool
    """False while it starts."""


@dataclass(frozen=True, slots=True)
class Serving:
    """A serving child process, as its ready file describes it."""

    name: str
    pid: int
    addresses: Mapping[str, str]
    """host:port of the master, or of each of its sites' agents."""
    metrics: str = ""
    """host:port of its metrics; empty: it serves none."""
    connect: str = ""
    """host:port at which the master serves Spark's own clients; empty: it does not."""
    flight: str = ""
    """host:port at which it serves clients of Arrow Flight SQL; empty: it does not."""


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """The files of a cluster."""

    root: Path

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def own_log(self) -> Path:
        """The output of a cluster in the background."""
        return self.logs / "dev.log"

    @property
    def ready_files(self) -> Path:
        return self.root / "ready"

    @property
    def admin_token(self) -> Path:
        """With `--auth`: the file of the token that may do everything."""
        return self.root / "admin.token"

    @property
    def sites_token(self) -> Path:
        """With `--auth`: the file of the token that the agents show."""
        return self.root / "sites.token"

    @property
    def _state_file(self) -> Path:
        return self.root / "dev.json"

    @property
    def metrics_targets(self) -> Path:
        """The file that tells Prometheus the addresses of the metrics, for its `file_sd_configs`."""
        return self.root / "metrics.json"

    @property
    def lock_file(self) -> Path:
        return self.root / "dev.lock"

    def write(self, state: ClusterState) -> None:
        """Replace the state file atomically."""
        write_json(self._state_file, asdict(state))

    def running(self) -> ClusterState | None:
        """The cluster that is running here; None: there is none. What a dead one left behind does not count."""
        content = read_json(self._state_file)
        if content is None:
            return None
        supervisor = ProcessIdentity(**content.pop("supervisor"))
        return ClusterState(supervisor=supervisor, **content) if supervisor.alive else None

    def serving(self) -> tuple[Serving, ...]:
        """The child processes that serve."""
        found = {path.stem: read_json(path) for path in sorted(self.ready_files.glob("*.json"))}
        return tuple(
            Serving(
                name,
                content["pid"],
                content.get("sites") or {name: content["address"]},
                content.get("metrics", ""),
                content.get("connect", ""),
                content.get("flight", ""),
            )
            for name, content in found.items()
            if content is not None
        )

    def write_metrics_targets(self) -> None:
        """Write the addresses of the child processes' metrics; if none serves metrics, remove the file."""
        found = [process for process in self.serving() if process.metrics]
        if not found:
            self.metrics_targets.unlink(missing_ok=True)
            return
        jobs = {process.name: "selat-master" if process.name == "master" else "selat-agent" for process in found}
        write_json(self.metrics_targets, [{"targets": [p.metrics], "labels": {"job": jobs[p.name]}} for p in found])

    def forget(self) -> None:
        """Remove the state file, and the one for Prometheus."""
        self._state_file.unlink(missing_ok=True)
        self.metrics_targets.unlink(missing_ok=True)


class DataLock:
    """Held by the only cluster that may use a data directory; the kernel releases it when its process dies."""

    def __init__(self, data: DataDirectory) -> None:
        self._data = data
        self._descriptor: int | None = None

    @property
    def held(self) -> bool:
        return self._descriptor is not None

    def take(self) -> Self:
        """Lock the directory. Raises DevError when another cluster holds the lock, or the directory is not writable."""
        try:
            make_private(self._data.root)
            descriptor = os.open(self._data.lock_file, os.O_RDWR | os.O_CREAT, 0o600)
        except NotPrivateError as error:
            raise DevError.of(str(error), hint=error.hint) from None
        except OSError as error:
            raise DevError.of(
                f"the data directory {self._data.root} cannot be used: {error.strerror}",
                hint="give --data a directory to write to",
            ) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise DevError.of(
                f"a cluster already runs in {self._data.root}", hint="`selat dev stop` it, or give another --data"
            ) from None
        self._descriptor = descriptor
        return self

    def release(self) -> None:
        """Release the lock; does nothing when it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def remember_latest(data: DataDirectory) -> None:
    """Record this as the directory for `selat dev stop`; a read-only home directory is not an error."""
    with suppress(OSError, NotPrivateError):
        make_private(_pointer_file().parent)
        write_json(_pointer_file(), {"data": str(data.root.resolve())})


def latest() -> DataDirectory | None:
    """The directory that was recorded."""
    content = read_json(_pointer_file())
    return None if content is None else DataDirectory(Path(content["data"]))


def find_running(data: Path | None) -> tuple[DataDirectory, ClusterState] | None:
    """The cluster in `data`; else the one in the default directory; else the latest one that this user started."""
    candidates = [DataDirectory(data)] if data else [DataDirectory(DEFAULT_DATA), latest()]
    for directory in candidates:
        state = directory.running() if directory else None
        if directory and state:
            return directory, state
    return None


def _pointer_file() -> Path:
    home = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(home) / "selat" / "dev.json"
