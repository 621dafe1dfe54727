from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selat.cli.base import jsontext
from selat.values import Link, QueryState, Relation, RelationKind


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "null"),
        (True, "true"),
        (3, "3"),
        (1.5, "1.5"),
        (math.nan, '"NaN"'),
        (-math.inf, '"-Infinity"'),
        (Decimal("12.340"), "12.340"),
        (Decimal("1E+3"), "1000"),
        ("é\n\x1b", '"é\\n\\u001b"'),
        (b"\x00\xff", '"AP8="'),
        (datetime(2013, 1, 1, 5, tzinfo=UTC), '"2013-01-01T05:00:00Z"'),
        (datetime(2013, 1, 1, 5, tzinfo=timezone(timedelta(hours=2))), '"2013-01-01T03:00:00Z"'),
        (datetime(2013, 1, 1, 5, 0, 0, 250000, tzinfo=UTC).replace(tzinfo=None), '"2013-01-01T05:00:00.250000"'),
        (date(2013, 1, 1), '"2013-01-01"'),
        (timedelta(seconds=1.5), "1.5"),
        (
            {"start": datetime(2013, 1, 1, tzinfo=UTC), "n": [1, None]},
            '{"start": "2013-01-01T00:00:00Z", "n": [1, null]}',
        ),
        ({1: "a"}, '{"1": "a"}'),
        (QueryState.RUNNING, '"running"'),
    ],
)
def test_dumps(value: Any, expected: str) -> None:
    assert jsontext.dumps(value) == expected


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(_JSON)
def test_what_is_written_reads_back_as_the_same(value: Any) -> None:
    text = jsontext.dumps(value)
    assert "\n" not in text
    assert json.loads(text) == value


def test_plain_names_the_unit_of_a_duration() -> None:
    relation = Relation("c", RelationKind.STREAM, (), (), watermark_delay=timedelta(seconds=5))
    assert jsontext.plain(relation)["watermark_delay_s"] == 5.0
    assert jsontext.plain(relation)["kind"] == "stream"
    assert jsontext.plain((Link("a", "b", 1.0, timedelta(milliseconds=45)),)) == [
        {"from_site": "a", "to_site": "b", "bandwidth_bytes_per_s": 1.0, "latency_s": 0.045}
    ]
