from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.times import to_us
from site_agent.base.errors import ConnectorError
from site_agent.connectors.generator.connector import GeneratorConnector
from site_agent.connectors.sources import Offset, ReadLimit, Source
from site_agent.engine import Field, RangeScan
from tests.unit.site_agent.connectors.contexts import COLUMNS, CREATED, source_context

CREATED_US = to_us(CREATED)
SECOND = timedelta(seconds=1)


def source(tmp_path: Path, **options: str) -> Source:
    return GeneratorConnector().open_source(source_context(tmp_path, {"connector": "generator", **options}))


def scanned(found: Source, start: Offset, end: Offset) -> RangeScan:
    scan = found.scan(start, end)
    assert isinstance(scan, RangeScan)
    return scan


def test_rows_are_read_when_they_are_due(tmp_path: Path) -> None:
    generator = source(tmp_path, rows_per_second="100")
    offset = generator.initial()
    first = generator.poll(offset, now=CREATED + SECOND, limit=ReadLimit())
    assert (first.end, first.empty, first.ended, first.lag_rows) == ({"row": 101}, False, False, 0)
    assert (scanned(generator, offset, first.end).start, scanned(generator, offset, first.end).end) == (0, 101)
    again = generator.poll(first.end, now=CREATED + SECOND, limit=ReadLimit())
    assert (again.end, again.empty) == ({"row": 101}, True)


def test_nothing_is_due_before_the_start(tmp_path: Path) -> None:
    generator = source(tmp_path, start="2026-01-02T00:00:00Z")
    poll = generator.poll(generator.initial(), now=CREATED, limit=ReadLimit())
    assert (poll.end, poll.empty, poll.event_time_floor_us) == ({"row": 0}, True, CREATED_US)


def test_what_is_beyond_the_limit_is_lag(tmp_path: Path) -> None:
    generator = source(tmp_path, rows_per_second="100")
    poll = generator.poll({"row": 0}, now=CREATED + 10 * SECOND, limit=ReadLimit(rows=300))
    assert (poll.end, poll.lag_rows) == ({"row": 300}, 701)
    assert poll.event_time_floor_us == CREATED_US + 3_000_000


def test_a_source_that_has_caught_up_promises_the_present(tmp_path: Path) -> None:
    generator = source(tmp_path, rows_per_second="0.1")
    now = CREATED + 15 * SECOND
    assert generator.poll({"row": 2}, now=now, limit=ReadLimit()).event_time_floor_us == to_us(now)


def test_it_ends_after_its_rows(tmp_path: Path) -> None:
    generator = source(tmp_path, rows="50")
    poll = generator.poll({"row": 0}, now=CREATED + timedelta(hours=1), limit=ReadLimit())
    assert (poll.end, poll.ended, poll.lag_rows) == ({"row": 50}, True, 0)
    over = generator.poll({"row": 50}, now=CREATED + timedelta(hours=1), limit=ReadLimit())
    assert (over.empty, over.ended) == (True, True)


def test_latest_starts_at_the_row_that_is_due(tmp_path: Path) -> None:
    generator = source(tmp_path, startup="latest", rows_per_second="10")
    now = CREATED + 100 * SECOND
    poll = generator.poll(generator.initial(), now=now, limit=ReadLimit())
    assert (poll.end, poll.empty, poll.lag_rows) == ({"row": 1001}, True, 0)
    assert generator.poll(poll.end, now=now + SECOND, limit=ReadLimit()).end == {"row": 1011}


def test_a_new_rate_is_taken_over_and_keeps_the_rows_before_it(tmp_path: Path) -> None:
    generator = source(tmp_path, rows_per_second="10")
    before = generator.poll({"row": 0}, now=CREATED + SECOND, limit=ReadLimit())
    schedule = [[CREATED_US, 10], [CREATED_US + 2_000_000, 1000]]
    generator.reconfigure({"rows_per_second": "1000", "rate_schedule": json.dumps(schedule)})
    assert generator.poll({"row": 0}, now=CREATED + SECOND, limit=ReadLimit()) == before
    assert generator.poll(before.end, now=CREATED + 3 * SECOND, limit=ReadLimit()).end == {"row": 1021}
    generator.reconfigure({"rows_per_second": "5"})
    assert generator.poll(before.end, now=CREATED + 3 * SECOND, limit=ReadLimit()).end == {"row": 1021}


@given(st.lists(st.integers(0, 5000), min_size=1, max_size=6), st.integers(1, 400))
def test_polls_cover_every_row_once(tmp_path_factory: pytest.TempPathFactory, steps_ms: list[int], limit: int) -> None:
    generator = source(tmp_path_factory.getbasetemp() / "generator", rows_per_second="77.7")
    offset, now, position = generator.initial(), CREATED, 0
    for step_ms in steps_ms:
        now += timedelta(milliseconds=step_ms)
        poll = generator.poll(offset, now=now, limit=ReadLimit(rows=limit))
        if not poll.empty:
            scan = scanned(generator, offset, poll.end)
            assert scan.start == position
            position = scan.end
        offset = poll.end
    assert offset == {"row": position}


def test_only_columns_that_are_read_are_made(tmp_path: Path) -> None:
    columns = (*COLUMNS, Field("unread", "ARRAY<INT>"))
    context = source_context(tmp_path, {"connector": "generator"}, columns=columns, read_columns=("v",))
    scan = GeneratorConnector().open_source(context).scan({"row": 3}, {"row": 5})
    assert isinstance(scan, RangeScan)
    assert [name for name, _ in scan.expressions] == ["ts", "v"]


def test_a_table_is_its_first_rows(tmp_path: Path) -> None:
    context = source_context(tmp_path, {"connector": "generator", "rows": "7"}, read_columns=("v",))
    scan = GeneratorConnector().open_table(context).scan()
    assert isinstance(scan, RangeScan)
    assert (scan.start, scan.end) == (0, 7)
    with pytest.raises(ConnectorError, match="'rows' is missing"):
        GeneratorConnector().open_table(source_context(tmp_path, {"connector": "generator"}))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows_per_second": "-1"}, "option 'rows_per_second' is '-1'"),
        ({"rows_per_second": "9e9"}, "option 'rows_per_second' is '9e9'"),
        ({"rows": "0"}, "option 'rows' is '0'"),
        ({"seed": "x"}, "option 'seed' is 'x'"),
        ({"start": "noon"}, "option 'start' is 'noon'"),
        ({"startup": "now"}, "option 'startup' is 'now'"),
        ({"max_ahead": "soon"}, "option 'max_ahead' is 'soon'"),
        ({"rate_schedule": "[]"}, "option 'rate_schedule' is '[]'"),
        ({"row_per_second": "1"}, "there is no option 'row_per_second'"),
        ({"column.v": "gauss(1)"}, "option 'column.v' is 'gauss(1)'"),
        ({"column.v.null_fraction": "2"}, "option 'column.v.null_fraction' is '2'"),
        ({"column.w": "sequence"}, "option 'column.w' names a column that is not there"),
        ({"column.ts": "sequence"}, "column ts is the event time and follows the rate"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, options: Mapping[str, str], message: str) -> None:
    with pytest.raises(ConnectorError) as caught:
        source(tmp_path, **options)
    assert caught.value.message == message
    assert caught.value.hint


def test_sites_make_rows_of_their_own_unless_told_otherwise(tmp_path: Path) -> None:
    def expressions(site: str, **options: str) -> object:
        context = replace(source_context(tmp_path, {"connector": "generator", **options}), site=site)
        scan = GeneratorConnector().open_source(context).scan({"row": 0}, {"row": 10})
        assert isinstance(scan, RangeScan)
        return scan.expressions

    assert expressions("us") == expressions("us")
    assert expressions("us") != expressions("eu")
    assert expressions("us", seed="7") == expressions("eu", seed="7")
