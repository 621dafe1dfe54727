"""Checks of this machine, which need no cluster."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta

from machine.description import Disk
from machine.java import JAVA_HINT, MINIMUM_JAVA
from selat.cli.commands.doctor.findings import Facts, Finding, State
from selat.cli.output import human

LEAST_FREE_BYTES = 1_000_000_000
LEAST_FREE_SHARE = 0.05
RENEWAL_SHARE = 1 / 4
"""A share of a certificate's life; with less left, it should have been renewed."""
SLOWEST_SYNC = timedelta(milliseconds=100)
"""Every epoch waits for about ten syncs."""


def versions(facts: Facts) -> Iterator[Finding]:
    """The versions of this installation, which are never wrong."""
    here = facts.here
    packages = ", ".join(f"{name} {version}" for name, version in sorted(here.packages.items()))
    yield Finding("versions", "here", State.OK, f"Selat {here.version}, Python {here.python}, {packages}")


def java(facts: Facts) -> Iterator[Finding]:
    """Whether Java is recent enough, where agents are installed."""
    if "pyspark" not in facts.here.packages:
        return
    usable = [java for java in facts.java if java.major is not None and java.major >= MINIMUM_JAVA]
    if usable:
        yield Finding("java", "here", State.OK, f"Java {usable[0].major} at {usable[0].where}")
        return
    found = ", ".join(f"{j.where} {f'is Java {j.major}' if j.major else 'does not run'}" for j in facts.java)
    said = f"an agent needs Java {MINIMUM_JAVA} or newer, and {found or 'there is none'}"
    yield Finding("java", "here", State.WRONG, said, JAVA_HINT)


def data(facts: Facts) -> Iterable[Finding]:
    """The disk of the given directory."""
    return [disk_finding("here", facts.data)] if facts.data is not None else []


def disk_finding(subject: str, disk: Disk) -> Finding:
    """Whether a disk has space and is fast enough."""
    if disk.reason:
        mend = "make the directory, and let the user who runs the member write to it"
        return Finding("disk", subject, State.WRONG, f"nothing can be written to {disk.path}: {disk.reason}", mend)
    free = f"{human.size(disk.free_bytes)} of {human.size(disk.total_bytes)} free at {disk.path}"
    if disk.free_bytes < max(LEAST_FREE_BYTES, LEAST_FREE_SHARE * disk.total_bytes):
        return Finding("disk", subject, State.WRONG, free, "make room: tasks stand still when the disk is full")
    sync = timedelta(seconds=disk.sync_s)
    if sync > SLOWEST_SYNC:
        mend = "give the member a disk of its own, or one that is local; each epoch waits for its disk"
        return Finding("disk", subject, State.WRONG, f"a synced write took {human.duration(sync)}", mend)
    return Finding("disk", subject, State.OK, f"{free}, a synced write took {human.duration(sync)}")


def certificate(facts: Facts) -> Iterator[Finding]:
    """The certificate of the given directory, and how long it is valid."""
    found = facts.certificate
    if found is None:
        return
    if found.problem or found.begins is None or found.ends is None or found.now is None:
        yield Finding("certificate", "here", State.WRONG, found.problem, found.hint)
        return
    left, life = found.ends - found.now, found.ends - found.begins
    said = f"{found.where} is that of {found.member}, valid for another {human.duration(left)}"
    if left < RENEWAL_SHARE * life:
        mend = f"renew it: selat cert renew {found.where} --authority DIR"
        yield Finding("certificate", "here", State.WRONG, said, mend)
        return
    yield Finding("certificate", "here", State.OK, said)
