"""Single processes of a cluster, for tests that replace or restore them as an operator does."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import selat
from tests.e2e.cluster import TEMPORARY, TOPOLOGY, wait_until
from tests.jvm import AGENT_ARGUMENTS

START_S = 180.0
STOP_S = 60.0


class Member:
    """A master or an agent; ended with its block."""

    def __init__(
        self,
        file: Path,
        command: list[str],
        *,
        environment: Mapping[str, str] | None = None,
        code: Path | None = None,
        entrance: Sequence[str] = (),
    ) -> None:
        """Start `python -m COMMAND` and wait until it serves.

        Args:
            file: The path of its log and its ready file, which have endings of their own.
            command: A module and its arguments, without `--ready-file`.
            environment: Added to ours.
            code: The directory of the packages; None: ours.
            entrance: A command that becomes the one behind it, elsewhere.
        """
        ready = file.with_suffix(".json")
        ready.unlink(missing_ok=True)
        with file.with_suffix(".log").open("ab") as log:
            self._process = subprocess.Popen(
                [*entrance, sys.executable, "-m", *command, "--ready-file", str(ready)],
                stdout=log,
                stderr=log,
                env={**os.environ, **(environment or {})},
                cwd=code,
            )
        try:
            wait_until(lambda: ready.exists() or self._process.poll() is not None, START_S)
            self.address = str(json.loads(ready.read_text()).get("address", ""))
        except BaseException:
            self.kill()
            raise

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def runs(self) -> bool:
        """False once the process has ended."""
        return self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL, at once."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(STOP_S)

    def stop(self) -> int:
        """SIGTERM; gives the exit code."""
        self._process.terminate()
        return self._process.wait(STOP_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process.poll() is None:
            self.stop()


def connected(address: str) -> selat.Client:
    """A client of a master that was started a moment ago.

    Channels of one process share what they know of an address: a producer's may be waiting for its next attempt.
    """
    clients: list[selat.Client] = []

    def answers() -> bool:
        with suppress(selat.Unavailable):
            clients.append(selat.connect(address))
        return bool(clients)

    wait_until(answers)
    return clients[0]


def master_command(directory: Path, address: str, *arguments: str, state: str = "state") -> list[str]:
    """The command of a master that has the three sites and its state in the directory."""
    topology = directory / "topology.yaml"
    topology.write_text(TOPOLOGY)
    return ["master", "--listen", address, "--topology", str(topology), "--data", str(directory / state), *arguments]


def agent_command(directory: Path, master: str, *sites: str) -> list[str]:
    """The command of an agent that has its data in the directory, and may read and write whatever tests have."""
    named = [text for site in sites for text in ("--site", site)]
    data = ["--data", str(directory / "agents"), "--allow-path", str(TEMPORARY)]
    return ["site_agent", *named, "--master", master, *data, *AGENT_ARGUMENTS]
