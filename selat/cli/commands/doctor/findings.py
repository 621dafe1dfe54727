"""Findings of checks, and the facts that all checks go by."""

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
    """The answer of one check about one thing."""

    check: str
    subject: str
    """The thing that was looked at: `here`, `master`, a site or a link."""
    state: State
    what: str
    mend: str = ""
    """The way to mend what is wrong."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java installation of this machine."""

    where: str
    major: int | None
    """The major number of its version; None: it does not run."""


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
    """The moment at which it was looked at."""
    problem: str = ""
    """The reason for which it cannot be used; the rest is empty then."""
    hint: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """The facts that the checks go by; nothing is measured after they are made."""

    here: Description
    java: tuple[Java, ...]
    data: LocalDisk | None
    """The disk of the directory that was named; None: none was."""
    master: str
    """host:port."""
    cluster: Cluster | None
    """None: the master did not answer."""
    problem: str = ""
    """The reason why it did not."""
    certificate: Certificate | None = None
    """The certificate of this command, by --tls-dir; None: it has none."""


Check = Callable[[Facts], Iterable[Finding]]
"""Looks at the facts; names itself in every finding."""
