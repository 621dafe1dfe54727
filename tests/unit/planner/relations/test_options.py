"""How options are declared, and what their texts may say."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.relations.options import (
    Option,
    OptionError,
    one_of,
    parse_bool,
    parse_duration,
    parse_fraction,
    parse_positive_int,
    parse_timestamp,
)
from planner.values.errors import Position


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


def test_numbers_are_exact_and_none_would_fill_the_memory() -> None:
    assert [parse_fraction(text) for text in ("0.1", "1/3", "2e2")] == [Fraction(1, 10), Fraction(1, 3), 200]
    for text in ("", "x", "nan", "inf", "1/0", "1e1000000000", "1e-1000000000", "9" * 101):
        with pytest.raises(ValueError):  # noqa: PT011
            parse_fraction(text)


def test_a_wrong_value_names_option_and_what_it_takes() -> None:
    option = Option("size", parse_positive_int, "a whole number", 3)
    assert (option.of({}), option.of({"size": "4"})) == (3, 4)
    with pytest.raises(OptionError) as caught:
        option.of({"size": "big"})
    assert (caught.value.message, caught.value.hint) == ("option 'size' is 'big'", "'size' takes a whole number")
    assert (caught.value.option, caught.value.at_name) == ("size", False)


def test_a_missing_option_says_what_it_takes() -> None:
    option = Option("path", str, "a path", "", required=True)
    assert option.of({"path": "/x"}) == "/x"
    for options in ({}, {"path": ""}):
        with pytest.raises(OptionError) as caught:
            option.of(options)
        assert (caught.value.message, caught.value.hint) == ("option 'path' is missing", "'path' takes a path")


def test_a_family_takes_all_names_of_its_form() -> None:
    family = Option("column.<name>.share", float, "a number", 0.0)
    assert family.takes("column.a.share")
    assert not any(map(family.takes, ("column.a", "column..share", "column.share", "columns.a.share")))
    assert family.named("a") == "column.a.share"


def test_an_error_is_the_same_in_another_process() -> None:
    error = OptionError("no", option="size", at_name=True, hint="yes", position=Position(1, 2), found="'size'")
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), vars(again)) == (OptionError, vars(error))
