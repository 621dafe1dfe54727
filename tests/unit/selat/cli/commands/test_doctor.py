"""Each check of `selat doctor` on facts made by hand: what is well, and what is wrong and how to mend it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import selat
from machine.description import Description, describe, measured_disk
from machine.description import Disk as LocalDisk
from selat.cli.commands.doctor import CHECKS, examine
from selat.cli.commands.doctor.findings import Certificate, Cluster, Facts, Java, State
from selat.client.links import LinkView
from selat.client.members import Disk, Member, Members, SiteMember
from selat.values import MemoryUse

GB = 1_000_000_000
PACKAGES = {"grpcio": "1.85.0", "pyspark": "4.3.0"}
DISK = Disk("/data", 50 * GB, 100 * GB, timedelta(milliseconds=3), "")
MEMBER = Member("0.1.0", "3.11.9", PACKAGES, "17.0.9", DISK)
SITE_MEMBER = SiteMember("eu", "eu:1", MEMBER, "", timedelta(milliseconds=2), timedelta(milliseconds=40))
SITE = selat.Site(
    "eu", selat.SiteState.ALIVE, "eu:1", 2, "0.1.0", None, 0, MemoryUse(0, 0, 0, 0, 0, 1), False, (), (), (), ()
)
LINK = LinkView(
    from_site="eu",
    to_site="us",
    capacity_bytes_per_s=1e6,
    available_bytes_per_s=1e6,
    used_bytes_per_s=0.0,
    rtt=timedelta(milliseconds=80),
    loss=0.0,
    age=None,
    confidence=1.0,
    method=None,
    congested=False,
    declared_bytes_per_s=1e6,
    declared_latency=timedelta(milliseconds=40),
)
US, US_MEMBER = replace(SITE, name="us"), replace(SITE_MEMBER, site="us")
CLUSTER = Cluster(Members(replace(MEMBER, java=""), (SITE_MEMBER, US_MEMBER)), (SITE, US), (LINK,))
NOW = datetime(2026, 3, 1, tzinfo=UTC)
CERTIFICATE = Certificate("tls", "client/alice", NOW - timedelta(days=5), NOW + timedelta(days=25), NOW)
WELL = Facts(
    here=Description("0.1.0", "3.11.9", PACKAGES),
    java=(Java("/usr/bin/java (PATH)", 21),),
    data=LocalDisk("/here", 50 * GB, 100 * GB, 0.003),
    master="m:7410",
    cluster=CLUSTER,
    certificate=CERTIFICATE,
)


def with_certificate(**values: object) -> Facts:
    return replace(WELL, certificate=replace(CERTIFICATE, **values))  # type: ignore[arg-type]


def with_eu(change: Callable[[SiteMember], SiteMember]) -> Facts:
    members = replace(CLUSTER.members, sites=(change(SITE_MEMBER), US_MEMBER))
    return replace(WELL, cluster=replace(CLUSTER, members=members))


def with_member(**values: object) -> Facts:
    return with_eu(lambda eu: replace(eu, member=replace(MEMBER, **values)))  # type: ignore[arg-type]


def with_disk(**values: object) -> Facts:
    return with_member(disk=replace(DISK, **values))  # type: ignore[arg-type]


def with_site(state: selat.SiteState) -> Facts:
    return replace(WELL, cluster=replace(CLUSTER, sites=(replace(SITE, state=state), US)))


def with_link(**values: object) -> Facts:
    return replace(WELL, cluster=replace(CLUSTER, links=(replace(LINK, **values),)))  # type: ignore[arg-type]


def test_where_all_is_well_every_check_says_so() -> None:
    findings = examine(WELL)
    assert {finding.state for finding in findings} == {State.OK}
    assert {finding.check for finding in findings} == {
        "versions", "java", "disk", "certificate", "master", "agent", "clock", "link",
    }  # fmt: skip
    assert {finding.subject for finding in findings} == {"here", "master", "eu", "us", "eu->us"}


@pytest.mark.parametrize(
    ("facts", "check", "subject", "said"),
    [
        (replace(WELL, java=()), "java", "here", "there is none"),
        (replace(WELL, java=(Java("/old (PATH)", 11), Java("/no (JAVA_HOME)", None))), "java", "here", "is Java 11"),
        (replace(WELL, data=LocalDisk("/x", reason="Permission denied")), "disk", "here", "Permission denied"),
        (with_certificate(now=NOW + timedelta(days=18)), "certificate", "here", "valid for another 7 d"),
        (with_certificate(problem="cannot read ca.pem", hint="issue one"), "certificate", "here", "cannot read ca.pem"),
        (replace(WELL, here=replace(WELL.here, version="0.2.0")), "versions", "here", "this command is Selat 0.2.0"),
        (with_site(selat.SiteState.EXPECTED), "agent", "eu", "never connected"),
        (with_site(selat.SiteState.UNREACHABLE), "agent", "eu", "is not heard"),
        (with_eu(lambda eu: replace(eu, member=None, reason="UNAVAILABLE: no")), "agent", "eu", "UNAVAILABLE: no"),
        (with_member(version="0.0.9"), "versions", "eu", "the master is Selat 0.1.0"),
        (with_eu(lambda eu: replace(eu, clock_ahead=timedelta(seconds=3))), "clock", "eu", "ahead of the master's"),
        (with_eu(lambda eu: replace(eu, clock_ahead=timedelta(seconds=-3))), "clock", "eu", "behind the master's"),
        (with_disk(free_bytes=GB // 2), "disk", "eu", "500.0 MB of"),
        (with_disk(free_bytes=4 * GB), "disk", "eu", "4.0 GB of"),
        (with_disk(sync=timedelta(seconds=1)), "disk", "eu", "a synced write took"),
        (with_disk(reason="Read-only file system"), "disk", "eu", "Read-only"),
        (with_link(loss=0.1), "link", "eu->us", "10.0% lost"),
        (with_link(rtt=None, loss=1.0), "link", "eu->us", "no echo came back"),
    ],
)
def test_what_is_wrong_is_found_alone_and_with_the_way_to_mend_it(
    facts: Facts, check: str, subject: str, said: str
) -> None:
    (wrong,) = [finding for finding in examine(facts) if finding.state is State.WRONG]
    assert (wrong.check, wrong.subject) == (check, subject)
    assert said in wrong.what
    assert wrong.mend


def test_agents_of_two_versions_of_spark_are_told_apart() -> None:
    facts = with_member(packages={**PACKAGES, "pyspark": "4.2.0"})
    wrong = [finding.subject for finding in examine(facts) if finding.state is State.WRONG]
    assert wrong == ["eu", "us"]


def test_without_a_master_only_this_machine_is_looked_at() -> None:
    facts = replace(WELL, cluster=None, problem="no master answers at m:7410")
    (wrong,) = [finding for finding in examine(facts) if finding.state is State.WRONG]
    assert (wrong.check, wrong.what) == ("master", "no master answers at m:7410")
    assert {finding.subject for finding in examine(facts)} == {"here", "master"}


def test_where_no_agent_is_installed_java_is_not_needed() -> None:
    facts = replace(WELL, here=replace(WELL.here, packages={"grpcio": "1.85.0"}), java=())
    assert "java" not in {finding.check for finding in examine(facts)}


def test_who_has_no_certificate_is_not_told_of_one() -> None:
    assert "certificate" not in {finding.check for finding in examine(replace(WELL, certificate=None))}


def test_a_clock_that_the_way_to_it_could_explain_is_not_wrong() -> None:
    far = timedelta(seconds=4)
    facts = with_eu(lambda eu: replace(eu, clock_ahead=timedelta(seconds=2), round_trip=far))
    assert State.WRONG not in {finding.state for finding in examine(facts)}


def test_a_link_that_nobody_measured_is_unknown_and_one_to_a_silent_site_is_left_out() -> None:
    assert [f.state for f in examine(with_link(rtt=None)) if f.check == "link"] == [State.UNKNOWN]
    assert [f for f in examine(with_site(selat.SiteState.UNREACHABLE)) if f.check == "link"] == []


def test_every_check_is_documented() -> None:
    assert all(check.__doc__ for check in CHECKS)


def test_a_disk_is_measured_and_nothing_is_left_on_it(tmp_path: Path) -> None:
    disk = measured_disk(tmp_path)
    assert disk.reason == ""
    assert 0 < disk.free_bytes <= disk.total_bytes
    assert disk.sync_s > 0
    assert list(tmp_path.iterdir()) == []


def test_a_directory_that_is_not_there_is_said(tmp_path: Path) -> None:
    assert measured_disk(tmp_path / "nowhere").reason == "No such file or directory"


def test_this_process_is_described() -> None:
    found = describe()
    assert found.disk is None
    assert found.packages["grpcio"]
    assert found.now_us > 0
