"""The demo's queries, as DuckDB answers them, while a cluster with TLS and tokens is upgraded, renewed and drained.

No member and no command here has `--insecure`. The streams take their time until everything has been done to the
cluster, then they are over quickly.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import selat
from selat.demo import oracle
from selat.demo.dataset import YEAR_IN_A_MINUTE, Dataset, prepare, queries
from selat.demo.readers import Reader
from tests.deploy.facts import note
from tests.deploy.operated import MASTER, SITES, Operated, eventually, places
from tests.deploy.releases import BEFORE_VERSION, Release, before, this_tree
from tests.needs import unless
from tests.wan.lab import environment, lab, lack, selat_command
from wire.certificates import read_certificate
from wire.files import MEMBER

SECTION = "operations"
pytestmark = [pytest.mark.timeout(1500), unless(lack())]

SLOW, FAST = YEAR_IN_A_MINUTE / 25, YEAR_IN_A_MINUTE * 8
"""Speeds of the replay: too slow to end before all was done, and over in seconds."""
OPERATED = (*SITES, MASTER)
END_S = 300.0
ENDED_CALL = "call refused method=/selat.v1.QueryService/FetchResults caller=client/sam"
RELATIONS = ("flights", "weather", "airlines", "planes", "airports")


@dataclass
class Trial:
    """The cluster with the running queries, and those who read their results."""

    cluster: Operated
    dataset: Dataset
    old: Release
    new: Release
    readers: list[Reader] = field(default_factory=list)

    def infos(self) -> Mapping[str, selat.QueryInfo]:
        with self.cluster.connect("olga") as client:
            return {reader.name: client.query(reader.query.id).info() for reader in self.readers}

    def goes_on(self) -> None:
        """Return when every query has read more rows than it had, and its reader still reads."""
        told = {name: info.rows_in for name, info in self.infos().items()}
        eventually(lambda: all(i.rows_in > told[name] for name, i in self.infos().items()), "queries go on")
        self.undisturbed()

    def undisturbed(self) -> None:
        states = {name: info.state for name, info in self.infos().items()}
        assert set(states.values()) == {selat.QueryState.RUNNING}, states
        assert {reader.name: reader.reading.error for reader in self.readers if reader.over} == {}


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    old, new = before(tmp_path), this_tree(tmp_path)
    dataset = prepare(tmp_path / "input", speed=SLOW)
    with (
        lab(places(), None, name=f"o{os.getpid()}") as within,
        Operated(within, tmp_path / "cluster", dataset.root) as cluster,
    ):
        cluster.start(old)
        made = Trial(cluster, dataset, old, new)
        try:
            yield made
        finally:
            for reader in made.readers:
                reader.close()


def test_results_are_duckdbs_while_members_are_upgraded_renewed_and_drained(trial: Trial, tmp_path: Path) -> None:
    with trial.cluster.connect("sam") as sam:
        submit(trial, sam)
        with followed(trial, "alerts", tmp_path / "alerts.jsonl") as command:
            members_are_upgraded_one_by_one(trial)
            certificates_are_renewed(trial)
            a_site_is_drained(trial, sam)
            trial.goes_on()
            with trial.cluster.connect("olga") as olga:
                olga.alter("flights", {"replay_speed": f"{FAST:g}"})
            results_are_duckdbs(trial)
            assert command.wait(END_S) == 0
        assert len((tmp_path / "alerts.jsonl").read_text().splitlines()) == rows(trial)["alerts"]
    calls_are_in_the_audit_log(trial)


def submit(trial: Trial, sam: selat.Client) -> None:
    """The operator declares and grants, the submitter submits and reads."""
    with trial.cluster.connect("olga") as olga:
        list(olga.script(trial.dataset.declare_sql))
        grants = "; ".join(f"GRANT SELECT ON {relation} TO analysts" for relation in RELATIONS)
        list(olga.script(grants))
    for query in queries():
        outcome = sam.sql(query.sql, name=query.name)
        assert isinstance(outcome, selat.Query)
        trial.readers.append(Reader(query.name, outcome))
    eventually(lambda: {i.state for i in trial.infos().values()} == {selat.QueryState.RUNNING}, "all queries RUNNING")
    trial.goes_on()


def followed(trial: Trial, query: str, results: Path) -> subprocess.Popen[bytes]:
    """The command that prints results while they come, from now to the end."""
    words = ["query", "results", query, "-o", "json", *trial.cluster.shown_by("sam")]
    with results.open("wb") as out:
        return subprocess.Popen(selat_command(*words), stdout=out, env=environment())


def members_are_upgraded_one_by_one(trial: Trial) -> None:
    cluster, took_s = trial.cluster, {}
    versions = dict.fromkeys(OPERATED, BEFORE_VERSION)
    assert cluster.versions() == versions
    assert trial.new.version != trial.old.version
    for name in OPERATED:
        trial.undisturbed()
        took_s[name] = cluster.replace(name, trial.new)
        versions[name] = trial.new.version
        assert cluster.versions() == versions
        doctored(trial, versions)
        trial.goes_on()
    note(
        SECTION,
        "rolling upgrade, one member at a time, under five running queries",
        how=f"SIGTERM, then the wheel of this tree (Selat {trial.new.version}) in place of that of"
        f" {trial.old.origin}, which was given the version {trial.old.version}; "
        "after each step `DescribeMembers` and `selat doctor`, and more rows of every query",
        found=f"both versions together {len(OPERATED) - 1} times, at the end {trial.new.version} everywhere; "
        + ", ".join(f"{name} {s:.0f} s" for name, s in took_s.items())
        + " from SIGTERM to all sites ALIVE; every exit code 0",
    )


def doctored(trial: Trial, versions: Mapping[str, str]) -> None:
    """`selat doctor` finds fault with the members that have another version than the master, and with no others."""
    wanted = {name for name in SITES if versions[name] != versions[MASTER]}
    here = {"here"} if versions[MASTER] != trial.new.version else set()
    words = [*selat_command("doctor", "-o", "json"), *trial.cluster.shown_by("olga")]
    said = subprocess.run(words, capture_output=True, text=True, check=False, env=environment()).stdout
    found = [json.loads(line) for line in said.splitlines()]
    wrong = {f["subject"] for f in found if f["check"] == "versions" and f["state"] == "wrong"}
    assert wrong == wanted | here, said


def serial_of(directory: Path) -> str:
    return read_certificate((directory / MEMBER).read_bytes()).serial_text


def certificates_are_renewed(trial: Trial) -> None:
    """All of them, without a restart; then the old ones are revoked, under calls that were begun with them."""
    cluster = trial.cluster
    processes = {name: member.pid for name, member in cluster.members.items()}
    kept = cluster.keep_certificates()
    olga, old_olga = cluster.certificates["client/olga"], kept["client/olga"]
    shown = cluster.knock(olga)
    assert {name: answer.serial for name, answer in shown.items()} == {name: serial_of(kept[name]) for name in shown}
    cluster.renew()
    renewed = {name: serial_of(directory) for name, directory in cluster.certificates.items()}
    assert not set(renewed.values()) & {serial_of(directory) for directory in kept.values()}
    shown = cluster.knock(olga)
    assert {name: (a.serial, a.answer) for name, a in shown.items()} == {n: (renewed[n], "SERVING") for n in shown}
    trial.goes_on()
    for directory in kept.values():
        cluster.revoke(serial_of(directory))
    for old in (old_olga, kept["site/jfk"]):
        for name, answer in cluster.knock(old).items():
            assert answer.answer.startswith("UNAUTHENTICATED: the certificate"), (name, answer)
            assert "is revoked" in answer.answer
    assert {answer.answer for answer in cluster.knock(olga).values()} == {"SERVING"}
    calls = len(trial.readers) + 1
    eventually(lambda: cluster.log(MASTER).count(ENDED_CALL) >= calls, "calls begun with old certificates are ended")
    trial.goes_on()
    assert {name: member.pid for name, member in cluster.members.items()} == processes
    assert all(member.runs for member in cluster.members.values())
    note(
        SECTION,
        "renewal of all certificates under five running queries",
        how="`selat cert renew`, a TLS handshake with every member, `selat cert revoke` of every old certificate",
        found=f"all {len(shown)} members show their new serial number, by the same processes; "
        "the old certificates of a person and of a site are refused by all members; the master ended the calls of all"
        f" {calls} readers, begun with an old certificate, and they came again by themselves; all queries went on",
    )


def a_site_is_drained(trial: Trial, sam: selat.Client) -> None:
    """New work that needs the site is refused, what runs there is said and goes on; then it takes work again."""
    cluster, asked = trial.cluster, "SELECT carrier, dep_delay FROM flights WHERE dep_delay > 600"
    assert "PERMISSION_DENIED" in cluster.selat("sam", "site", "drain", "jfk", code=3)
    said = cluster.selat("olga", "site", "drain", "jfk", "-o", "json")
    work = json.loads(said)["work"]
    here = {task.query_id for info in trial.infos().values() for task in info.tasks if task.site == "jfk"}
    assert {item["query_id"] for item in work if item["query_id"]} == here
    assert ("source", "flights", False) in {(w["kind"], w["subject"], w["movable"]) for w in work}
    with pytest.raises(selat.StatementError) as refused:
        sam.sql(asked)
    assert refused.value.code == "NO_PLACEMENT"
    trial.goes_on()
    cluster.selat("olga", "site", "undrain", "jfk")
    again = sam.sql(asked)
    assert isinstance(again, selat.Query)
    again.cancel()
    kinds = sorted({item["kind"] for item in work})
    note(
        SECTION,
        "a site is drained and undrained under five running queries",
        how="`selat site drain jfk`, a query over its stream, `selat site undrain jfk`, the query again",
        found=f"{len(work)} pieces of work are named ({', '.join(kinds)}) and go on; the new query is refused"
        f" ({refused.value.code}), afterwards accepted; a submitter may not drain (PERMISSION_DENIED)",
    )


def rows(trial: Trial) -> Mapping[str, int]:
    return {reader.name: len(reader.reading.rows) for reader in trial.readers}


def results_are_duckdbs(trial: Trial) -> None:
    eventually(lambda: all(reader.over for reader in trial.readers), "all results were read", END_S)
    assert {reader.name: reader.reading.error for reader in trial.readers if reader.reading.error} == {}
    with oracle.connect(trial.dataset.root) as db:
        wanted = {query.name: oracle.expected(db, query.oracle) for query in queries()}
    found = {r.name: oracle.difference(r.reading.rows, wanted[r.name]) for r in trial.readers}
    assert set(found.values()) == {""}, found
    infos = trial.infos()
    assert {info.state for info in infos.values()} == {selat.QueryState.FINISHED}, infos
    assert {info.rows_late for info in infos.values()} == {0}
    departures = sum(trial.dataset.rows.values())
    assert infos["alerts"].rows_in == departures
    note(
        SECTION,
        "the demo's five queries, submitted and read by a submitter, over all of it",
        how=f"every row beside DuckDB's; {departures} departures at three sites",
        found=f"equal: {', '.join(f'{name} {count} rows' for name, count in rows(trial).items())}; all FINISHED, no row"
        " late; nobody had to submit or read again",
    )


def calls_are_in_the_audit_log(trial: Trial) -> None:
    text = trial.cluster.audit_log.read_text()
    records = [json.loads(line) for line in text.splitlines()]
    told = [(r["principal"], r["method"], r["outcome"]) for r in records]
    assert told.count(("sam", "QueryService/Execute", "OK")) == len(queries()) + 1
    for expected in expected_calls():
        assert expected in told, expected
    assert all(told.count((site, "SiteService/Register", "OK")) >= 2 for site in SITES)
    assert all(r["principal"] for r in records if r["outcome"] == "OK")
    secrets = [trial.cluster.token_file(person).read_text().strip() for person in ("admin", "olga", "sam")]
    assert not any(secret in text for secret in secrets)
    principals = sorted({principal for principal, _, _ in told if principal})
    note(
        SECTION,
        "audit log of the whole trial",
        how="`--audit-log`, read at the end",
        found=f"{len(records)} calls of {', '.join(principals)}, each with its principal, refusals included; no token",
    )


def expected_calls() -> Sequence[tuple[str, str, str]]:
    return (
        ("admin", "AccessService/CreateToken", "OK"),
        ("olga", "QueryService/Execute", "OK"),
        ("olga", "SiteService/DrainSite", "OK"),
        ("olga", "SiteService/UndrainSite", "OK"),
        ("olga", "CatalogService/AlterBinding", "OK"),
        ("sam", "QueryService/Execute", "NO_PLACEMENT"),
        ("sam", "QueryService/FetchResults", "OK"),
        ("sam", "SiteService/DrainSite", "PERMISSION_DENIED"),
    )
