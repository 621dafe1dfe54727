"""`selat dev --netns` for a test, with a data directory and a home of its own."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from selat.dev.cli import WAN_NAME
from selat.dev.state import DataDirectory
from selat.wan.emulation import Emulations
from selat.wan.record import Record
from tests.e2e.cluster import TEMPORARY
from tests.needs import Lack, Need
from tests.wan.lab import environment, run_selat, selat_command


@dataclass(frozen=True, slots=True)
class NetnsDev:
    """The command."""

    directory: Path
    port: int
    _started: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def data(self) -> DataDirectory:
        return DataDirectory(self.directory / "data")

    @property
    def record(self) -> Record:
        return Emulations().find(WAN_NAME)

    @property
    def address(self) -> str:
        """At which the machine finds the master."""
        return f"{self.record.layout.uplink_address}:{self.port}"

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return run_selat(*arguments, state=self.directory / "state")

    def command(self, *options: str) -> list[str]:
        listen = f"127.0.0.1:{self.port}"
        allowed = ["--allow-path", str(TEMPORARY)]
        return ["dev", "--netns", "--listen", listen, "--data", str(self.data.root), *allowed, *options]

    def start(self) -> subprocess.Popen[str]:
        """In the foreground, as long as the process runs."""
        process = subprocess.Popen(
            selat_command(*self.command()),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(self.directory / "state"),
        )
        self._started.append(process)
        return process

    def end(self) -> None:
        """What was started; a stop cannot know of one that has not got so far as to write down that it is there."""
        for process in self._started:
            if process.poll() is None:
                process.terminate()
                process.communicate(timeout=60)

    def sites_processes(self) -> list[int]:
        """Processes in the namespaces."""
        emulations, record = Emulations(), self.record
        return [pid for site in record.layout.sites for pid in emulations.processes(record, site)]


@contextmanager
def netns_dev(directory: Path) -> Iterator[NetnsDev]:
    """Stopped at the end, whatever happens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    dev = NetnsDev(directory, port)
    try:
        yield dev
    finally:
        dev.end()
        dev("dev", "stop", "--data", str(dev.data.root))


def lack_of_room() -> Lack | None:
    """Why no such cluster can be started now; None: it can. There is one for a whole machine."""
    record = next((r for r in Emulations().all() if r.layout.name == WAN_NAME), None)
    taken = record is not None and (record.owner is None or record.owner.alive)
    return Lack(Need.MACHINE, f"a WAN named {WAN_NAME} is up on this one") if taken else None
