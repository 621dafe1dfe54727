"""Finds out which backends work on this machine, by trying each in a temporary namespace."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

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
    require_root()
    if reason := _try("tc qdisc add dev lo root handle 1: htb default 0xff"):
        return tuple(Capability(name, False, f"no HTB: {reason}") for name in PREFERENCE)
    netem = _try("tc qdisc add dev lo root netem delay 1ms")
    tun = "" if os.access("/dev/net/tun", os.R_OK | os.W_OK) else "/dev/net/tun cannot be opened"
    uml = (
        tun or _missing(("linux.uml", "busybox", "ethtool")) or ("" if _UML_MODULES.is_dir() else f"no {_UML_MODULES}")
    )
    return (
        Capability("netem", not netem, netem or "delay, jitter and loss by the kernel"),
        Capability("tun", not tun, tun or "delay, jitter and loss in user space, for some hundred Mbit/s in all"),
        Capability(
            "uml-router", not uml, uml or "delay, jitter and loss by a kernel of its own, for some ten Mbit/s in all"
        ),
        Capability("rate-only", True, "bandwidth alone: no delay, jitter or loss"),
    )


def choose(wanted: str | None) -> Capability:
    """The requested backend, else the best.

    Raises:
        WanError: that one does not work here, with the reason.
    """
    found = capabilities()
    if wanted is None:
        usable = next((c for c in found if c.works), None)
        if usable is None:
            raise WanError.of("this machine cannot emulate a WAN", hint=found[0].reason)
        return usable
    chosen = next((c for c in found if c.backend == wanted), None)
    if chosen is None:
        raise WanError.of(f"there is no backend {wanted!r}", hint=f"possible are {', '.join(PREFERENCE)}")
    if not chosen.works:
        others = ", ".join(c.backend for c in found if c.works)
        raise WanError.of(f"the backend {wanted} does not work here: {chosen.reason}", hint=f"these do: {others}")
    return chosen


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


def _missing(programs: Sequence[str]) -> str:
    absent = [name for name in programs if shutil.which(name, path=SEARCH_PATH) is None]
    return f"not installed: {', '.join(absent)}" if absent else ""
