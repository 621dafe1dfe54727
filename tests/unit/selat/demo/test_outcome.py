from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta

from rich.console import Console

import selat
from selat.cli.base import jsontext
from selat.client.links import LinkView
from selat.demo.outcome import Outcome, QueryOutcome
from selat.demo.progress import LinesDisplay, LinkBytes, Snapshot, crossed, line, link_lines, tables
from selat.demo.report import print_outcome

LINKS = (LinkBytes("ewr", "hub", 300_000), LinkBytes("jfk", "hub", 200_000))


def outcome(difference: str = "") -> Outcome:
    return Outcome(
        queries=(QueryOutcome("delays", 5442, 61.23456, ""), QueryOutcome("alerts", 610, 60.0, difference)),
        links=LINKS,
        raw_bytes={"ewr": 3_000_000, "jfk": 2_000_000},
        seconds_to_first_result=21.5,
        seconds=93.25,
    )


def use(source: str, target: str, size: int) -> selat.LinkUse:
    return selat.LinkUse(source, target, bytes=size, epochs=1, bytes_per_s=0.0)


def info(name: str, *links: selat.LinkUse) -> selat.QueryInfo:
    return selat.QueryInfo(
        id="q-0001-a1b2c3",
        name=name,
        sql="",
        state=selat.QueryState.RUNNING,
        reason="",
        submitted_at=datetime(2026, 1, 1, tzinfo=UTC),
        started_at=None,
        ended_at=None,
        columns=(),
        gateway="hub",
        tasks=(),
        links=links,
        rows_in=12_345,
        rows_out=67,
        rows_late=0,
        rows_malformed=0,
        watermark=datetime(2013, 2, 1, tzinfo=UTC),
    )


def printed(draw: object) -> str:
    console = Console(file=io.StringIO(), width=200)
    if isinstance(draw, Outcome):
        print_outcome(console, draw)
    else:
        console.print(draw)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_object_for_programs() -> None:
    assert json.loads(jsontext.dumps(outcome().as_object())) == {
        "queries": [
            {"name": "delays", "rows": 5442, "seconds": 61.235, "matches_oracle": True},
            {"name": "alerts", "rows": 610, "seconds": 60.0, "matches_oracle": True},
        ],
        "links": [{"from": "ewr", "to": "hub", "bytes": 300_000}, {"from": "jfk", "to": "hub", "bytes": 200_000}],
        "raw_bytes": 5_000_000,
        "wan_bytes": 500_000,
        "seconds_to_first_result": 21.5,
        "seconds": 93.25,
    }


def test_one_query_that_differs_spoils_the_proof() -> None:
    assert outcome().proven
    wrong = outcome("got 1, the oracle has 2")
    assert not wrong.proven
    assert wrong.as_object()["queries"][1]["matches_oracle"] is False


def test_the_report_says_what_matters() -> None:
    text = printed(outcome("got 1, the oracle has 2"))
    assert "5,442" in text
    assert "alerts differs: got 1, the oracle has 2" in text
    assert "ewr > hub" in text
    assert "500.0 kB crossed the WAN. All rows to the hub as zstd-compressed CSV: 5.0 MB, 10.0 times as much." in text


def test_a_line_of_progress() -> None:
    snapshot = Snapshot(12.3, [info("delays", use("ewr", "hub", 500_000))])
    assert line(snapshot) == "12 s: delays 12,345 rows in, 67 out, to 2013-02-01 00:00:00 | WAN 500.0 kB"
    assert "12,345" in printed(tables(snapshot))


def test_lines_come_every_few_seconds() -> None:
    console = Console(file=io.StringIO(), width=200)
    display = LinesDisplay(console, every_s=5.0)
    for seconds in (0.0, 1.0, 4.9, 5.0, 9.0, 10.5):
        display.show(Snapshot(seconds, []))
    assert isinstance(console.file, io.StringIO)
    assert [text.split()[0] for text in console.file.getvalue().splitlines()] == ["0", "5", "10"]


def view(source: str, target: str, used_bytes_per_s: float = 0.0) -> LinkView:
    return LinkView(
        from_site=source,
        to_site=target,
        capacity_bytes_per_s=2.5e6,
        available_bytes_per_s=2.5e6 - used_bytes_per_s,
        used_bytes_per_s=used_bytes_per_s,
        rtt=timedelta(milliseconds=80),
        loss=0.0,
        age=None,
        confidence=0.0,
        method=None,
        congested=False,
        declared_bytes_per_s=2.5e6,
        declared_latency=timedelta(milliseconds=40),
    )


def test_all_links_are_shown_once_data_flows_and_at_the_end() -> None:
    console = Console(file=io.StringIO(), width=40)
    display = LinesDisplay(console, every_s=100.0, links_every_s=20.0)
    queries = [info("delays", use("ewr", "hub", 500_000))]
    for seconds, used in ((0.0, 0.0), (1.0, 1e5), (2.0, 1e5), (21.5, 1e5), (30.0, 0.0)):
        display.show(Snapshot(seconds, queries, [view("ewr", "hub", used), view("hub", "ewr")]))
    display.end(Snapshot(35.0, queries, [view("ewr", "hub"), view("hub", "ewr")]))
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue().splitlines()
    assert [row.split()[0] for row in text if "every link" in row] == ["1", "22", "35"]
    assert sum("800 kbit/s of ~20 Mbit/s, 80 ms, 500.0 kB in all" in row for row in text) == 2
    assert sum("0 bit/s of ~20 Mbit/s, 80 ms, 0 B in all" in row for row in text) == 3
    assert "0 bit/s of ~20 Mbit/s, 80 ms, 500.0 kB in all" in text[-2] + text[-1]


def test_a_row_of_links_is_one_line() -> None:
    sites = ("hub", "ewr", "jfk", "lga")
    pairs = [(a, b) for a in sites for b in sites if a != b]
    queries = [info("delays", *(use(a, b, 123_456_789) for a, b in pairs))]
    text = link_lines(Snapshot(1.0, queries, [view(a, b, 1234.5) for a, b in pairs])).splitlines()
    assert len(text) == 2 + len(sites)
    assert all(row.count("9.88 kbit/s of ~20 Mbit/s, 80 ms, 123.5 MB in all") == 3 for row in text[2:])


def test_links_are_summed_over_queries() -> None:
    queries = [
        info("delays", use("jfk", "hub", 5), use("ewr", "hub", 1), use("hub", "ewr", 0)),
        info("wind", use("ewr", "hub", 2)),
    ]
    assert crossed(queries) == (LinkBytes("ewr", "hub", 3), LinkBytes("jfk", "hub", 5))
