"""The master's metrics, from what it knows."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from contract.tasks import TaskState
from machine.metrics import Family
from master.config.values import MasterConfig
from master.metrics import LINKS_TOLD, MASTER_METRICS, told
from master.server import Master, Surroundings
from master.store.sqlite import SqliteStore
from master.wan.sqlite_history import SqliteLinkHistory
from planner.graph.ids import TaskId
from planner.values.links import LinkFigures
from planner.wan.snapshot import LinkView
from tests.fakes import CountingHex, VirtualClock
from tests.unit.master.build import CLICKS, PAGES, PLAN, TOPOLOGY, report, site_record, status

PRICED = replace(
    TOPOLOGY,
    links={pair: replace(link, price_per_gb=0.5) for pair, link in TOPOLOGY.links.items()},
    currency="USD",
)


def master() -> Master:
    around = Surroundings(VirtualClock(), CountingHex(), SqliteLinkHistory.in_memory())
    made = Master(SqliteStore.in_memory(), PRICED, config=MasterConfig(probes=False), around=around)
    for relation in (CLICKS, PAGES):
        made.catalog.create(relation)
    for site in ("us", "eu"):
        made.jobs.register(site_record(site))
    return made


def series(made: Master) -> dict[str, float]:
    """Values by name and label values, as in `selat_site_up us`."""
    return flat(made.metrics.families())


def flat(families: object) -> dict[str, float]:
    assert isinstance(families, list)
    found: dict[str, float] = {}
    for family in families:
        assert isinstance(family, Family)
        for sample in family.samples:
            key = " ".join((sample.name, *sample.labels.values()))
            assert key not in found, "a series is there twice"
            found[key] = sample.value
    return found


def test_sites_and_slots() -> None:
    found = series(master())
    assert (found["selat_site_up us"], found["selat_site_up hub"]) == (1, 0)
    assert found["selat_slots us free"] == 2
    assert found["selat_slot_waiters us"] == 0
    assert found["selat_site_draining us"] == 0


def test_a_query_has_its_series_for_as_long_as_it_runs() -> None:
    made = master()
    query = made.jobs.submit(PLAN, sql="SELECT ...", name="visits").id
    clicks = status(TaskId(query, "clicks"), TaskState.RUNNING, rows_in=5, rows_late=2, input_bytes=700)
    made.jobs.report(report("us", clicks, assignment_version=9))
    found = series(made)
    assert found[f"selat_query_info {query} visits hub"] == 1
    assert found[f"selat_query_state {query} deploying"] == 1
    assert found[f"selat_query_state {query} running"] == 0
    assert found[f"selat_query_rows_in_total {query}"] == 5
    assert found[f"selat_query_rows_late_total {query}"] == 2
    assert found[f"selat_query_input_bytes_total {query}"] == 700
    assert found[f"selat_query_wan_cost_total {query} USD"] == 0
    assert (found["selat_queries deploying"], found["selat_query_transitions_total deploying"]) == (1, 1)
    made.jobs.cancel(query)
    for site in ("us", "eu"):
        made.jobs.report(report(site, assignment_version=99))
    assert not [key for key in series(made) if query in key]
    assert series(made)["selat_query_transitions_total cancelled"] == 1


def test_unknown_figures_are_left_out() -> None:
    made = master()
    query = made.jobs.submit(PLAN, sql="SELECT ...").id
    found = series(made)
    assert f"selat_query_watermark_timestamp_seconds {query}" not in found
    assert "selat_link_round_trip_seconds us hub" not in found
    assert "selat_link_estimate_age_seconds us hub" not in found
    assert found["selat_link_capacity_bytes_per_second us hub"] == 2_500_000
    assert found["selat_link_price us hub USD"] == 0.5


def test_changes_of_the_state_are_timed() -> None:
    found = series(master())
    assert found["selat_store_commit_duration_seconds_count"] > 0
    assert found["selat_store_size_bytes"] > 0
    assert found["selat_store_errors_total"] == 0


def test_calls_are_told_by_service_method_and_status() -> None:
    made = master()
    made._calls.observe(0.2, "selat.v1.QueryService", "GetQuery", "OK")
    assert series(made)["selat_rpc_duration_seconds_count selat.v1.QueryService GetQuery OK"] == 1


def test_names_are_in_order_and_units_are_in_names() -> None:
    names = [metric.name for metric in MASTER_METRICS]
    assert len(set(names)) == len(names)
    for metric in MASTER_METRICS:
        assert metric.name.startswith("selat_")
        assert metric.name.endswith("_total") == (metric.kind.value == "counter")
        assert metric.unit != "seconds" or "seconds" in metric.name
        assert metric.unit != "bytes" or "bytes" in metric.name


@pytest.mark.parametrize(("count", "expected"), [(LINKS_TOLD, LINKS_TOLD), (LINKS_TOLD + 1, 1)])
def test_of_too_many_links_only_those_that_carry_something_are_told(count: int, expected: int) -> None:
    idle = LinkView(LinkFigures("a", "b", 1e6, 1e6, timedelta(0)), 0.0, None, 0.0, None, congested=False)
    busy = replace(idle, used_bytes_per_s=5.0, rtt=timedelta(milliseconds=1))
    assert len(told([busy, *[idle] * (count - 1)])) == expected
