from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from planner.access.limits import MEMBER, Limits, LimitTable, Meters, TokenBucket
from planner.access.limits_text import read_limits
from planner.access.principal import Kind, Principal
from planner.values.errors import InvalidDefinitionError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECOND = timedelta(seconds=1)
SMALL = Limits(calls_per_s=2, burst_calls=3, concurrent_calls=2, streams=1)
ANN = Principal(Kind.PERSON, "ann", frozenset({"reader"}))
BOB = Principal(Kind.PERSON, "bob", frozenset({"reader"}))


def test_a_bucket_lets_a_burst_through_and_then_so_many_a_second() -> None:
    bucket = TokenBucket.full(SMALL, NOW)
    assert [bucket.take(NOW) for _ in range(4)] == [True, True, True, False]
    assert [bucket.take(NOW + SECOND) for _ in range(3)] == [True, True, False]
    assert [bucket.take(NOW + 100 * SECOND) for _ in range(4)] == [True, True, True, False]


def test_time_that_goes_back_gives_no_calls() -> None:
    bucket = TokenBucket.full(SMALL, NOW)
    for _ in range(3):
        assert bucket.take(NOW)
    assert not bucket.take(NOW - 100 * SECOND)
    assert not bucket.take(NOW)


def test_a_flood_of_one_principal_leaves_another_its_own() -> None:
    meters = Meters(LimitTable({Kind.PERSON: SMALL}))
    flood = [meters.of(ANN, NOW).begin(NOW, follows=False) for _ in range(5)]
    assert flood == ["", "", "concurrent_calls", "concurrent_calls", "concurrent_calls"]
    assert meters.of(BOB, NOW).begin(NOW, follows=False) == ""


def test_calls_and_streams_are_counted_apart_and_given_back() -> None:
    meter = Meters(LimitTable({Kind.PERSON: SMALL})).of(ANN, NOW)
    assert meter.begin(NOW, follows=True) == ""
    assert meter.begin(NOW, follows=True) == "streams"
    assert meter.begin(NOW, follows=False) == ""
    meter.end(follows=True)
    assert meter.begin(NOW, follows=True) == ""
    meter.end(follows=True)
    assert meter.begin(NOW, follows=True) == "calls_per_s"


def test_idle_meters_are_forgotten_and_busy_ones_kept() -> None:
    meters = Meters(LimitTable({Kind.PERSON: SMALL}))
    meters.of(ANN, NOW).begin(NOW, follows=False)
    meters.of(BOB, NOW)
    meters.forget_idle(NOW)
    assert len(meters) == 1
    meters.of(ANN, NOW).end(follows=False)
    meters.forget_idle(NOW + 10 * SECOND)
    assert len(meters) == 0


def test_limits_go_by_name_then_by_kind() -> None:
    table = LimitTable(names={"bob": SMALL})
    framework = Principal(Kind.FRAMEWORK, "nightly", frozenset({"framework"}))
    assert (table.of(BOB), table.of(ANN), table.of(framework)) == (SMALL, Limits(), MEMBER)


def test_a_file_changes_what_it_names() -> None:
    table = read_limits(b"person: {calls_per_s: 50}\nnames: {nightly: {live_queries: 500}}\n")
    assert table.kinds[Kind.PERSON] == Limits(calls_per_s=50)
    assert table.kinds[Kind.SITE] == MEMBER
    assert table.names["nightly"] == Limits(calls_per_s=50, live_queries=500)
    assert read_limits(b"") == LimitTable()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("person: [1]", "person is no mapping"),
        ("persons: {streams: 1}", "the file has persons"),
        ("person: {stream: 1}", "person has stream"),
        ("person: {streams: many}", "person.streams is 'many'"),
        ("person: {streams: 1.5}", "person.streams is 1.5"),
        ("person: {streams: true}", "person.streams is True"),
        ("site: {streams: 0}", "site: streams must be more than 0"),
        ("person: {calls_per_s: .nan}", "person: calls_per_s must be more than 0"),
        ("a: {", "it is no YAML"),
        ("- a", "the file is no mapping"),
    ],
)
def test_a_wrong_file_is_refused_with_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(InvalidDefinitionError) as caught:
        read_limits(text.encode())
    assert caught.value.message.startswith(message)
    assert caught.value.hint
