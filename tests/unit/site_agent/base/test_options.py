from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from site_agent.base.errors import ConnectorError
from site_agent.base.options import (
    Option,
    idle_timeout_of,
    one_of,
    parse_bool,
    parse_duration,
    parse_positive_int,
    parse_timestamp,
    refuse_unknown,
    require,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("5 seconds", timedelta(seconds=5)),
        ("500ms", timedelta(milliseconds=500)),
        ("1 min", timedelta(minutes=1)),
        ("1.5 Hours", timedelta(minutes=90)),
        ("1 hour 30 minutes", timedelta(minutes=90)),
        (" 2d ", timedelta(days=2)),
        ("10 us", timedelta(microseconds=10)),
        ("0 s", timedelta(0)),
    ],
)
def test_durations(text: str, expected: timedelta) -> None:
    assert parse_duration(text) == expected


@pytest.mark.parametrize("text", ["", "5", "seconds", "-5 seconds", "5 parsecs", "5 s or so", "99999999999 days"])
def test_what_is_not_a_duration(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        parse_duration(text)


@given(st.integers(0, 10**9), st.sampled_from(["ms", "s", "seconds", "minutes", "day"]))
def test_durations_have_one_meaning_with_and_without_space(count: int, unit: str) -> None:
    try:
        spaced = parse_duration(f"{count} {unit}")
    except ValueError:
        return
    assert parse_duration(f"{count}{unit}") == spaced


def test_timestamps_without_a_zone_are_utc() -> None:
    expected = datetime(2026, 1, 31, 12, tzinfo=UTC)
    for text in ("2026-01-31T12:00:00Z", "2026-01-31 12:00:00", "2026-01-31T13:00:00+01:00"):
        assert parse_timestamp(text) == expected


def test_booleans_numbers_and_words() -> None:
    assert (parse_bool("True"), parse_bool("false")) == (True, False)
    assert parse_positive_int("1_000") == 1000
    assert one_of("a", "b")(" A ") == "a"
    for parse, text in ((parse_bool, "yes"), (parse_positive_int, "0"), (one_of("a"), "c")):
        with pytest.raises(ValueError):  # noqa: PT011
            parse(text)


def test_a_wrong_value_names_option_and_what_it_takes() -> None:
    option = Option("size", parse_positive_int, "a whole number", 3)
    assert (option.of({}), option.of({"size": "4"})) == (3, 4)
    with pytest.raises(ConnectorError) as caught:
        option.of({"size": "big"})
    assert (caught.value.message, caught.value.hint) == ("option 'size' is 'big'", "'size' takes a whole number")


def test_an_unknown_option_names_the_one_that_may_be_meant() -> None:
    refuse_unknown({"path": "", "column.a": ""}, ["path"], prefixes=["column."])
    with pytest.raises(ConnectorError) as caught:
        refuse_unknown({"formt": "csv"}, ["path", "format"])
    assert (caught.value.message, caught.value.hint) == ("there is no option 'formt'", "did you mean 'format'?")
    with pytest.raises(ConnectorError) as caught:
        refuse_unknown({"zzz": ""}, ["path", "format"])
    assert caught.value.hint == "options are format, path"


def test_a_missing_option_says_what_it_takes() -> None:
    assert require({"path": "/x"}, "path", allowed="a path") == "/x"
    with pytest.raises(ConnectorError) as caught:
        require({"path": ""}, "path", allowed="a path")
    assert (caught.value.message, caught.value.hint) == ("option 'path' is missing", "'path' takes a path")


def test_idle_timeout() -> None:
    assert idle_timeout_of({}) == timedelta(seconds=30)
    assert idle_timeout_of({"idle_timeout": "2 s"}) == timedelta(seconds=2)
    with pytest.raises(ConnectorError, match="idle_timeout"):
        idle_timeout_of({"idle_timeout": "soon"})
