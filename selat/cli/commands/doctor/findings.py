"""The findings of checks, and the facts on which checks are based."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

import selat
from machine.description import Description
from machine.description import Disk as LocalDisk
from selat.client.links import LinkView
from selat.client.members import Members


class State(Enum):
    """The outcome of a check."""

    OK = "ok"
    WRONG = "wrong"
    UNKNOWN = "unknown"
    """It could not be checked; another finding says why."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check about one subject."""

    check: str
    subject: str
    """What was checked: `here`, `master`, a site or a link."""
    state: State
    what: str
    mend: str = ""
    """How to fix what is wrong."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java installation of this machine."""

    where: str
    major: int | None
    """The major number of its version; None: it cannot be run."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """The master's answers."""

    members: Members
    sites: tuple[selat.Site, ...]
    links: tuple[LinkView, ...]


@dataclass(frozen=True, slots=True)
class Certificate:
    """The certificate in a directory of this machine."""

    where: str
    member: str = ""
    begins: datetime | None = None
    ends: datetime | None = None
    now: datetime | None = None
    """When it was read."""
    problem: str = ""
    """Why it cannot be used; all else is empty then."""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts on which checks are based; nothing is measured afterwards."""

    here: Description
    java: tuple[Java, ...]
    data: LocalDisk | None
    """The disk of the given directory; None: none was given."""
    master: str
    """host:port."""
    cluster: Cluster | None
    """None: the master did not answer."""
    problem: str = ""
    """Why it did not."""
    certificate: Certificate | None = None
    """This command's certificate, by --tls-dir; None: it has none."""


Check = Callable[[Facts], Iterable[Finding]]
"""Checks the facts; every finding names the check."""
