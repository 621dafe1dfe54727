"""Finds out which backends work on this machine, by trying each in a temporary namespace."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from selat.wan.errors import WanError
from selat.wan.system import SEARCH_PATH

PREFERENCE = ("netem", "tun", "uml-router", "rate-only")
"""The order in which backends are tried when none is requested."""

_TIMEOUT_S = 20.0
_UML_MODULES = Path("/usr/lib/uml/modules")


@dataclass(frozen=True, slots=True)
class Capability:
    """Whether a backend works here."""

    backend: str
    works: bool
    reason: str
    """What is missing, or what it emulates."""


def is_root() -> bool:
    """Whether this process may create namespaces."""
    return os.geteuid() == 0


def require_root() -> None:
    """Raises WanError without the right to create namespaces."""
    if not is_root():
        raise WanError.of(
            "an emulated WAN of namespaces needs root",
            hint="run it with sudo, or use `selat dev --emulate-links`, which needs no privileges: routers keep to the "
            "links' figures themselves",
        )


def capabilities() -> tuple[Capability, ...]:
    """The capability of every backend, in order of preference. Raises WanError without root."""
    return tuple(_trials())


def _trials() -> Iterator[Capability]:
    """Tries one backend after the other, in order of preference. Raises WanError without root."""
    require_root()
    if reason := _try("tc qdisc add dev lo root handle 1: htb default 0xff"):
        yield from (Capability(name, False, f"no HTB: {reason}") for name in PREFERENCE)
        return
    netem = _try("tc qdisc add dev lo root netem delay 1ms")
    yield Capability("netem", not netem, netem or "delay, jitter and loss by the kernel")
    tun = "" if os.access("/dev/net/tun", os.R_OK | os.W_OK) else "/dev/net/tun cannot be opened"
    yield Capability("tun", not tun, tun or "delay, jitter and loss in user space, for some hundred Mbit/s in all")
    uml = tun or _missing(("linux.uml", "busybox", "ethtool")) or _uml_complaint()
    emulated = "delay, jitter and loss by a kernel of its own, for some ten Mbit/s in all"
    yield Capability("uml-router", not uml, uml or emulated)
    yield Capability("rate-only", True, "bandwidth alone: no delay, jitter or loss")


def choose(wanted: str | None) -> Capability:
    """The requested backend, else the best.

    Raises:
        WanError: that one does not work here, with the reason.
    """
    tried: list[Capability] = []
    for chosen in _trials():
        if wanted in (None, chosen.backend) and chosen.works:
            return chosen
        tried.append(chosen)
    if wanted is None:
        raise WanError.of("this machine cannot emulate a WAN", hint=tried[0].reason)
    reason = next((c.reason for c in tried if c.backend == wanted), None)
    if reason is None:
        raise WanError.of(f"there is no backend {wanted!r}", hint=f"possible are {', '.join(PREFERENCE)}")
    others = ", ".join(c.backend for c in tried if c.works)
    raise WanError.of(f"the backend {wanted} does not work here: {reason}", hint=f"these do: {others}")


def _try(command: str) -> str:
    """Run a command in a network namespace of its own; returns its complaint, empty when it works."""
    try:
        done = subprocess.run(
            ["unshare", "--net", *command.split()],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
            env={**os.environ, "PATH": SEARCH_PATH, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["failed"])[0]


def _uml_complaint() -> str:
    """Start User-Mode Linux, which powers itself off; returns why it does not run here, empty when it does.

    Its kernel panics on some processors: it does not know all registers that they have.
    """
    if not _UML_MODULES.is_dir():
        return f"no {_UML_MODULES}"
    with TemporaryDirectory(prefix="selat-uml-") as directory:
        kernel = ("linux.uml", "mem=64M", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", "con=null")
        start = ("con0=null,fd:1", f"uml_dir={directory}/", "init=/bin/busybox", "--", "poweroff", "-f")
        try:
            done = subprocess.run(
                [*kernel, *start],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_TIMEOUT_S,
                check=False,
                env={**os.environ, "PATH": SEARCH_PATH, "TMPDIR": "/dev/shm"},
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
    return uml_panic(done.stdout + done.stderr) if done.returncode < 0 else ""


def uml_panic(log: str) -> str:
    """Return why a User-Mode Linux died, from its log: the line before its panic tells what its kernel met."""
    before, panic, _ = log.partition("Kernel panic")
    lines = before.splitlines() if panic else []
    return f"User-Mode Linux dies: {next((line for line in reversed(lines) if line.strip()), 'its log has no panic')}"


def _missing(programs: Sequence[str]) -> str:
    absent = [name for name in programs if shutil.which(name, path=SEARCH_PATH) is None]
    return f"not installed: {', '.join(absent)}" if absent else ""
