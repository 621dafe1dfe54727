"""Members of a cluster, the master and its agents, as they were when somebody asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from selat.v1 import member_pb2, site_pb2


@dataclass(frozen=True, slots=True)
class Disk:
    """The disk of a member's data directory."""

    path: str
    free_bytes: int
    total_bytes: int
    sync: timedelta
    """The time that writing a block to the disk took."""
    reason: str
    """The reason why nothing can be written; empty when something can."""


@dataclass(frozen=True, slots=True)
class Member:
    """A process, as it describes itself."""

    version: str
    """The version of Selat."""
    python: str
    packages: Mapping[str, str]
    """Versions by the name of the distribution."""
    java: str
    """The version of an agent's JVM; empty for the master."""
    disk: Disk


@dataclass(frozen=True, slots=True)
class SiteMember:
    """A site's agent, as the master reached it."""

    site: str
    address: str
    """The address where the master looked for it; empty: it never registered."""
    member: Member | None
    """None: it did not answer."""
    reason: str
    """The reason why it does not; empty when it does."""
    clock_ahead: timedelta
    """The time that its clock is ahead of the master's; right to half of the round trip."""
    round_trip: timedelta


@dataclass(frozen=True, slots=True)
class Members:
    """All members of a cluster."""

    master: Member
    sites: tuple[SiteMember, ...]
    """The agents of all sites, by name."""


def members(message: site_pb2.DescribeMembersResponse) -> Members:
    return Members(_member(message.master), tuple(map(_site_member, message.sites)))


def _site_member(message: site_pb2.SiteMember) -> SiteMember:
    return SiteMember(
        site=message.site,
        address=message.address,
        member=_member(message.member) if message.HasField("member") else None,
        reason=message.reason,
        clock_ahead=timedelta(seconds=message.clock_ahead_s),
        round_trip=timedelta(seconds=message.round_trip_s),
    )


def _member(message: member_pb2.Member) -> Member:
    disk = message.disk
    return Member(
        version=message.version,
        python=message.python,
        packages=dict(message.packages),
        java=message.java,
        disk=Disk(disk.path, disk.free_bytes, disk.total_bytes, timedelta(seconds=disk.sync_s), disk.reason),
    )
