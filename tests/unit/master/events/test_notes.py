"""Changes, in words."""

from __future__ import annotations

from dataclasses import replace

from contract.tasks import TaskState
from master.config.values import MasterConfig
from master.events import EventFilter, Subject
from master.events.notes import Notes, placed
from master.records.model import Progress, QueryState, StateChange
from master.server import Master, Surroundings
from master.store.sqlite import SqliteStore
from master.wan.sqlite_history import SqliteLinkHistory
from planner.graph.ids import TaskId
from tests.fakes import CountingHex, VirtualClock
from tests.unit.master.build import CLICKS, PAGES, PLAN, START, TOPOLOGY, query, report, site_record, status


def test_what_happens_to_queries_and_sites_is_told() -> None:
    around = Surroundings(VirtualClock(), CountingHex(), SqliteLinkHistory.in_memory())
    master = Master(SqliteStore.in_memory(), TOPOLOGY, config=MasterConfig(probes=False), around=around)
    for relation in (CLICKS, PAGES):
        master.catalog.create(relation)
    master.jobs.register(site_record("us"))
    master.jobs.register(site_record("eu"))
    made = master.jobs.submit(PLAN, sql="SELECT ...").id
    master.jobs.report(report("us", status(TaskId(made, "clicks"), TaskState.FAILED, reason="no such file")))
    master.jobs.set_draining("eu", True)
    told = [(e.subject.query or e.subject.site, e.subject.message) for e in master.events.newest(EventFilter(), 10)]
    assert told == [
        ("us", "site is alive"),
        ("eu", "site is alive"),
        (made, "accepted"),
        (made, "table pages at us; source clicks at us, eu; merge at eu"),
        (made, f"deploying -> failed: task {made}.clicks.p0 failed: no such file"),
        ("eu", "site is draining"),
    ]


def test_a_stage_that_others_do_the_work_of_is_not_needed() -> None:
    assert placed(replace(query(), plan=replace(PLAN, sites={}), progress=Progress())) == (
        "table pages at us; source clicks at us, eu; merge not needed"
    )


def test_long_reasons_are_cut() -> None:
    told: list[Subject] = []
    change = StateChange("q", QueryState.RUNNING, QueryState.FAILED, "x" * 10_000, START)
    Notes(told.append).query(query(), change)
    assert len(told[0].message) == 500


def test_links_are_told_in_bits() -> None:
    told: list[Subject] = []
    Notes(told.append).link(("us", "eu"), 2_500_000, 1_250_000)
    assert (told[0].site, told[0].to_site) == ("us", "eu")
    assert told[0].message == "carries 10Mbit/s, was 20Mbit/s"
