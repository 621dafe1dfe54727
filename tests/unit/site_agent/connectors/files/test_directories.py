from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.values.ranges import Range
from site_agent.base.errors import ConnectorError
from site_agent.connectors.files.directories import partition_ranges, partition_values
from site_agent.connectors.parquet.partitions import partitions
from site_agent.engine import Field

COUNTRY, DAY, N, FLAG = Field("country", "STRING"), Field("day", "DATE"), Field("n", "INT"), Field("flag", "BOOLEAN")


def values(path: str, *columns: Field) -> Sequence[str | None]:
    return partition_values(f"/data/{path}", "/data", columns)


def test_values_of_directories_in_any_order_and_case() -> None:
    path = "Day=2026-01-31/x/country=a%3Db c/part.parquet"
    assert values(path, COUNTRY, DAY) == ("a=b c", "2026-01-31")
    assert values("n=-7/flag=true/a=b/part=1.csv", N, FLAG) == ("-7", "true")
    assert values("country=__HIVE_DEFAULT_PARTITION__/part", COUNTRY) == (None,)
    assert values("country=/part", COUNTRY) == ("",)


@pytest.mark.parametrize(
    ("path", "column", "message"),
    [
        ("us/part", COUNTRY, "is not below a directory country=..."),
        ("day=us/country=1.csv", COUNTRY, "is not below a directory country=..."),
        ("n=x/part", N, "'x' is no INT"),
        ("n=1.5/part", N, "'1.5' is no INT"),
        ("day=2026-02-31/part", DAY, "'2026-02-31' is no DATE"),
        ("flag=yes/part", FLAG, "'yes' is no BOOLEAN"),
    ],
)
def test_other_directories_are_refused(path: str, column: Field, message: str) -> None:
    with pytest.raises(ConnectorError, match=message):
        values(path, column)


def test_ranges() -> None:
    found = partition_ranges(("us", None, "7", "true"), (COUNTRY, DAY, N, FLAG))
    assert found == {
        "country": Range("us", "us", nulls=False),
        "day": Range(values=False),
        "n": Range(7, 7, nulls=False),
        "flag": Range(nulls=False),
    }
    assert partition_ranges(("2026-01-31",), (DAY,))["day"].low == date(2026, 1, 31)


@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cs"], exclude_characters="\0"), max_size=20))
def test_what_the_sink_writes_is_read(text: str) -> None:
    rows = pa.table({"country": [text], "v": [1]})
    (partition,) = partitions(rows, ["country"])
    path = str(Path("/data", *partition.directories, "part.parquet"))
    assert partition_values(path, "/data", (COUNTRY,)) == (text or None,)
