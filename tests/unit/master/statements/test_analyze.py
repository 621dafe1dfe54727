"""What is measured beside what was expected."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest

from contract.tasks import TaskState
from contract.times import to_us
from master.queries.progress import totals
from master.records.model import LinkUse, OperatorStatus, QueryRecord, QueryState, ResultStatus, TaskStatus
from master.statements.analyze import LINKS, MeasuredLink, analyze_json
from master.statements.analyze_text import analyze_text
from master.statements.columns import Column, count
from master.views.queries import QueryView
from planner.graph.plan import LinkTraffic
from planner.text.fields import markdown
from planner.values.links import LinkFigures
from tests.unit.master.build import CLICKS_EU, CLICKS_US, MERGE_EU, PAGES_US, PLAN, QUERY_ID, START, query, status

NOW = START + timedelta(minutes=5)
MARK = to_us(NOW - timedelta(seconds=7))


def view(*tasks: TaskStatus, links: tuple[LinkUse, ...] = (), result: ResultStatus | None = None) -> QueryView:
    record: QueryRecord = query(state=QueryState.RUNNING, name="top")
    traffic = (LinkTraffic("us", "eu", 10.0, 400.0), LinkTraffic("eu", "hub", 1.0, 20.0))
    figures = (LinkFigures("us", "eu", 8_000.0, 8_000.0, timedelta(0)),)
    known = {**record.progress.tasks, **{t.task_id: t for t in tasks}}
    record = replace(
        record,
        plan=replace(PLAN, links=traffic, figures=figures, logical=("Project[topic, n]",)),
        progress=replace(record.progress, tasks=known, result=result),
    )
    return QueryView(record, totals(record), links, "")


US = status(
    CLICKS_US,
    rows_in=1000,
    rows_out=100,
    rows_late=4,
    rows_in_per_s=50.0,
    busy_ratio=0.5,
    watermark_us=MARK,
    retained_bytes=300,
    operators=(OperatorStatus("Filter", 400, 20.0), OperatorStatus("Aggregate", 100, 5.0)),
)
EU = status(CLICKS_EU, rows_in_per_s=10.0, busy_ratio=0.25, watermark_us=MARK - 3_000_000, lag_rows=60)


def test_tasks_operators_and_spread_of_a_stage() -> None:
    measured = analyze_json(view(US, EU), PLAN, now=NOW)
    clicks = next(s for s in measured["stages"] if s["id"] == "clicks")

    eu, us = clicks["tasks"]
    assert (us["rows_late"], us["watermark_delay_s"], us["retained_bytes"]) == (4, 7.0, 300)
    assert us["operators"] == [
        {"operator": "Filter", "rows_out": 400, "rows_in_per_s": 50.0, "rows_out_per_s": 20.0},
        {"operator": "Aggregate", "rows_out": 100, "rows_in_per_s": 20.0, "rows_out_per_s": 5.0},
    ]
    assert eu["watermark_delay_s"] == 10.0
    assert clicks["retained_bytes"] == 300
    spread = clicks["spread"]
    assert (spread["hottest_site"], spread["slowest_site"], spread["watermark_spread_s"]) == ("us", "eu", 3.0)
    assert (spread["most_lag_site"], spread["lag_rows_max"]) == ("eu", 60)


def test_one_column_is_in_text_json_and_docs(monkeypatch: pytest.MonkeyPatch) -> None:
    column: Column[MeasuredLink] = Column(
        "epochs_expected", "Epochs expected.", lambda link: 7 if link.expected else None, "to come", count
    )
    monkeypatch.setattr(LINKS, "fields", (*LINKS.fields, column))
    measured = analyze_json(view(US), PLAN, now=NOW)
    text = [" ".join(line.split()) for line in analyze_text(measured).splitlines()]
    assert [link["epochs_expected"] for link in measured["links"]] == [7, 7]
    assert "from to expected measured ratio of bandwidth moved epochs to come" in text
    assert "us eu 400 B/s 0 B/s 0 0 % 0 B 0 7" in text
    assert "| `links[].epochs_expected` | Epochs expected. |" in markdown((LINKS,))


def test_a_stage_at_one_site_has_no_spread() -> None:
    measured = analyze_json(view(US, EU, status(MERGE_EU)), PLAN, now=NOW)

    assert [s["id"] for s in measured["stages"] if s["spread"] is None] == ["pages", "merge"]


def test_links_are_expected_and_measured_side_by_side() -> None:
    uses = (LinkUse("us", "eu", 6_000, 12, 600.0), LinkUse("us", "hub", 50, 1, 0.0))
    links = {(link["from"], link["to"]): link for link in analyze_json(view(links=uses), PLAN, now=NOW)["links"]}

    assert links["us", "eu"]["measured_to_expected"] == 1.5
    assert links["us", "eu"]["bytes"] == 6_000
    assert links["us", "hub"]["expected_bytes_per_s"] is None
    assert (links["eu", "hub"]["bytes_per_s"], links["eu", "hub"]["epochs"]) == (0.0, 0)


@pytest.mark.parametrize(
    ("watermark_us", "ended"), [(None, False), (2**63 - 1, True), (253_402_300_800_000_000, True), (-(2**63), False)]
)
def test_a_watermark_that_is_no_instant_has_no_delay(watermark_us: int | None, ended: bool) -> None:
    measured = analyze_json(view(replace(US, watermark_us=watermark_us)), PLAN, now=NOW)
    task = next(t for s in measured["stages"] for t in s["tasks"] if t["task"] == str(CLICKS_US))

    assert (task["watermark"], task["watermark_delay_s"], task["watermark_ended"]) == (None, None, ended)


def test_what_ended_or_did_not_start_holds_nobody_up() -> None:
    ended, starting = replace(US, state=TaskState.ENDED), replace(EU, state=TaskState.STARTING)
    clicks = analyze_json(view(ended, starting), PLAN, now=NOW)["stages"][1]

    assert clicks["spread"] is None


def test_the_text_has_every_part() -> None:
    uses = (LinkUse("us", "eu", 6_000, 12, 600.0),)
    result = ResultStatus(QUERY_ID, rows=1234, bytes=2048, watermark_us=MARK)
    failing = status(MERGE_EU, TaskState.RETRYING, reason="division by zero", state_rows=9, state_bytes=512)
    text = analyze_text(analyze_json(view(US, EU, failing, status(PAGES_US), links=uses, result=result), PLAN, now=NOW))
    lines = [" ".join(line.split()) for line in text.splitlines()]

    assert lines[0] == f"Query {QUERY_ID} (top), running for 5.0 min"
    counts = "0 1,000 100 4 0 0 0 B 50.0/s 0.0/s 0 B/s 50% 0% 0% 0 0.0 s 0 0.0 s 0 0 B 300 B 0 B 0 B 0 0"
    counts += " 0.0 s" * 5
    assert f"us running {counts} 2026-01-01 00:04:53, 7.0 s behind" in lines
    assert "us Filter 400 50.0/s 20.0/s" in lines
    assert "hottest us (50%, least 25%), slowest eu (watermark 3.0 s behind), most lag eu (60 rows)" in lines
    assert "eu: division by zero" in lines
    assert "us eu 400 B/s 600 B/s 1.5 7.5 % 6.0 kB 12" in lines
    assert lines[-1] == "1,234 rows, 2.0 kB at hub, watermark 2026-01-01 00:04:53, 7.0 s behind"


def test_nothing_measured_yet_is_said_as_well() -> None:
    measured = analyze_json(view(), PLAN, now=NOW)

    assert json.loads(json.dumps(measured)) == measured
    assert "watermark -" in analyze_text(measured)
