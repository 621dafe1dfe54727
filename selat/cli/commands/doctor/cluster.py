"""Checks of a running cluster, by the answers of its master."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import selat
from machine.description import Disk as LocalDisk
from selat.cli.commands.doctor.findings import Facts, Finding, State
from selat.cli.commands.doctor.local import disk_finding
from selat.cli.output import human
from selat.client.links import LinkView
from selat.client.members import Disk, Member, SiteMember

MOST_APART = timedelta(seconds=1)
"""If clocks differ by more, rows are late, or refused because of `max_ahead`."""
MOST_LOSS = 0.02
"""The share of lost echoes above which TCP becomes slow on long links."""


def master(facts: Facts) -> Iterator[Finding]:
    """Whether a master answers."""
    if facts.cluster is not None:
        yield Finding("master", "master", State.OK, f"answers at {facts.master}")
        return
    mend = "start it, or name another with --master or SELAT_MASTER; is a firewall between?"
    yield Finding("master", "master", State.WRONG, facts.problem, mend)


def agents(facts: Facts) -> Iterator[Finding]:
    """Whether agents are alive, and reachable at the addresses that they give."""
    for site, member in _sites(facts):
        if site.state is selat.SiteState.EXPECTED:
            mend = f"start its agent: selat agent --site {site.name} --master {facts.master} --data DIR"
            yield Finding("agent", site.name, State.WRONG, "its agent has never connected", mend)
        elif site.state is not selat.SiteState.ALIVE:
            mend = "look whether its process runs and the link to the master is up"
            yield Finding("agent", site.name, State.WRONG, "its agent is not heard", mend)
        elif member.member is None:
            mend = "is the port open to the master, and is --advertise right?"
            said = f"the master does not reach it at {member.address}: {member.reason}"
            yield Finding("agent", site.name, State.WRONG, said, mend)
        else:
            took = human.duration(member.round_trip)
            yield Finding("agent", site.name, State.OK, f"reached at {member.address} in {took}")


def versions(facts: Facts) -> Iterator[Finding]:
    """The versions of Selat, Python and PySpark of all members, which should be the same."""
    if facts.cluster is None:
        return
    wanted = facts.cluster.members.master
    if facts.here.version != wanted.version:
        said = f"this command is Selat {facts.here.version}, the master {wanted.version}"
        yield Finding("versions", "here", State.WRONG, said, f"pip install selat=={wanted.version}")
    yield Finding("versions", "master", State.OK, _versions(wanted))
    spark = {m.member.packages.get("pyspark", "") for m in facts.cluster.members.sites if m.member}
    for _, site in _sites(facts):
        if site.member is None:
            continue
        differs = _difference(site.member, wanted, spark)
        mend = "upgrade one member at a time, until all are the same" if differs else ""
        said = f"{_versions(site.member)}: {differs}" if differs else _versions(site.member)
        yield Finding("versions", site.site, State.WRONG if differs else State.OK, said, mend)


def _difference(member: Member, master: Member, spark: set[str]) -> str:
    if member.version != master.version:
        return f"the master is Selat {master.version}"
    if len(spark) > 1:
        return f"agents have PySpark {', '.join(sorted(spark))}"
    return ""


def _versions(member: Member) -> str:
    parts = [f"Selat {member.version}", f"Python {member.python}"]
    parts += [f"{name} {version}" for name, version in sorted(member.packages.items())]
    return ", ".join(parts + ([f"Java {member.java}"] if member.java else []))


def clocks(facts: Facts) -> Iterator[Finding]:
    """The agents' clocks against the master's."""
    for _, site in _sites(facts):
        if site.member is None:
            continue
        apart, slack = abs(site.clock_ahead), site.round_trip / 2
        way = "ahead of" if site.clock_ahead > timedelta(0) else "behind"
        said = f"{human.duration(apart)} {way} the master's, right to {human.duration(slack)}"
        if apart - slack > MOST_APART:
            mend = "run a time service (chrony, systemd-timesyncd) on every machine"
            yield Finding("clock", site.site, State.WRONG, said, mend)
        else:
            yield Finding("clock", site.site, State.OK, said)


def disks(facts: Facts) -> Iterator[Finding]:
    """The disks of the members' data directories."""
    if facts.cluster is None:
        return
    yield disk_finding("master", _local(facts.cluster.members.master.disk))
    for _, site in _sites(facts):
        if site.member is not None:
            yield disk_finding(site.site, _local(site.member.disk))


def links(facts: Facts) -> Iterator[Finding]:
    """Links between sites that are alive, by their latest measurements."""
    heard = {site.name for site, _ in _sites(facts) if site.state is selat.SiteState.ALIVE}
    for link in facts.cluster.links if facts.cluster else ():
        if {link.from_site, link.to_site} <= heard:
            yield _link(link)


def _link(link: LinkView) -> Finding:
    name = f"{link.from_site}->{link.to_site}"
    if link.rtt is None:
        if link.loss > 0:
            mend = f"can {link.from_site} reach the address of {link.to_site}? selat site show {link.to_site}"
            return Finding("link", name, State.WRONG, "no echo came back", mend)
        return Finding("link", name, State.UNKNOWN, "no round trip was measured yet")
    said = f"round trip {human.duration(link.rtt)}, {link.loss:.1%} lost, {human.size(link.capacity_bytes_per_s)}/s"
    if link.loss > MOST_LOSS:
        return Finding("link", name, State.WRONG, said, "look for an overloaded or faulty way between the sites")
    return Finding("link", name, State.OK, said)


def _sites(facts: Facts) -> Iterator[tuple[selat.Site, SiteMember]]:
    """Each site with the answer of its agent."""
    if facts.cluster is not None:
        told = {member.site: member for member in facts.cluster.members.sites}
        yield from ((site, told[site.name]) for site in facts.cluster.sites if site.name in told)


def _local(disk: Disk) -> LocalDisk:
    return LocalDisk(disk.path, disk.free_bytes, disk.total_bytes, disk.sync / timedelta(seconds=1), disk.reason)
