"""Runs `ip` and `tc`; no other module touches the machine's network."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from selat.wan.errors import WanError

_TIMEOUT_S = 30.0
_TIE = ("setpriv", "--pdeathsig", "KILL")
SEARCH_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin"))
"""Where programs are searched: also in directories that are not on every user's path."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Lines for one run of `ip -batch` or `tc -batch`."""

    tool: Literal["ip", "tc"]
    namespace: str | None
    """None: the machine's own."""
    lines: tuple[str, ...]
    may_fail: bool = False


class System(Protocol):
    """The machine's network."""

    def apply(self, batches: Iterable[Batch]) -> None:
        """Run the batches in order.

        Raises:
            WanError: names the line that failed and what the tool said.
        """
        ...

    def output(self, command: Sequence[str]) -> str:
        """The output of a command.

        Raises:
            WanError: it is not there, or failed.
        """
        ...


class Machine:
    """This machine."""

    def apply(self, batches: Iterable[Batch]) -> None:
        for batch in batches:
            place = ["-n", batch.namespace] if batch.namespace is not None else []
            done = _run([batch.tool, *place, "-batch", "-"], "\n".join(batch.lines) + "\n")
            if done.returncode and not batch.may_fail:
                where = f"in {batch.namespace}" if batch.namespace else "on this machine"
                raise WanError.of(
                    f"{batch.tool} failed {where}: {_first_complaint(done.stderr, batch)}",
                    hint="`selat wan down` removes what is left; `selat wan backends` says what this machine can do",
                )

    def output(self, command: Sequence[str]) -> str:
        done = _run(command, "")
        if done.returncode:
            raise WanError.of(f"{' '.join(command)}: {done.stderr.strip()}", hint="`selat wan status` shows what is up")
        return done.stdout


def _run(command: Sequence[str], text: str) -> subprocess.CompletedProcess[str]:
    if shutil.which(command[0], path=SEARCH_PATH) is None:
        raise WanError.of(f"{command[0]} is not installed", hint="install the package iproute2")
    try:
        return subprocess.run(
            _tied(command),
            input=text,
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
            env={**os.environ, "PATH": SEARCH_PATH, "LC_ALL": "C"},
            # A Ctrl-C on the terminal is for this process: clean-up that it triggers must not lose its tools.
            process_group=0,
        )
    except subprocess.TimeoutExpired:
        raise WanError.of(f"{' '.join(command)} does not come back", hint="look into the kernel's log") from None


def _tied(command: Sequence[str]) -> list[str]:
    """The command, made to die with this process: a batch must not go on while others clean up.

    Not by code between fork and exec: with gRPC's threads in this process, that may never come to its end.
    """
    return [*_TIE, *command] if shutil.which(_TIE[0], path=SEARCH_PATH) else list(command)


def _first_complaint(said: str, batch: Batch) -> str:
    """The tool's complaint, and the line that it concerns (`Command failed -:3`)."""
    words = said.strip().splitlines()
    number = next((line.rpartition(":")[2] for line in words if line.startswith("Command failed")), "")
    line = batch.lines[int(number) - 1] if number.isdigit() and 0 < int(number) <= len(batch.lines) else ""
    complaint = "; ".join(word for word in words if not word.startswith("Command failed"))
    return f"{complaint or 'no reason given'}" + (f" (at `{batch.tool} {line}`)" if line else "")
