from __future__ import annotations

from datetime import date

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.relations.connectors.directories import NULL_DIRECTORY
from site_agent.connectors.parquet.partitions import Partition, escaped, partitions, value_name
from site_agent.connectors.sinks import SinkError

ROWS = pa.table(
    {
        "country": ["us", "id", None, "us"],
        "day": [date(2026, 1, 31)] * 3 + [date(2026, 2, 1)],
        "n": [1, 2, 3, 4],
        "ts": pa.array([0, 0, 0, 0], pa.timestamp("us", tz="UTC")),
    }
)


def plain(found: list[Partition]) -> list[tuple[str, list[int]]]:
    return [("/".join(p.directories), p.rows.column("n").to_pylist()) for p in found]


def test_rows_go_where_their_values_say() -> None:
    assert plain(partitions(ROWS, ["country", "day"])) == [
        ("country=us/day=2026-01-31", [1]),
        ("country=id/day=2026-01-31", [2]),
        (f"country={NULL_DIRECTORY}/day=2026-01-31", [3]),
        ("country=us/day=2026-02-01", [4]),
    ]
    assert partitions(ROWS, ["country"])[0].rows.column_names == ["day", "n", "ts"]
    assert plain(partitions(ROWS, [])) == [("", [1, 2, 3, 4])]


@pytest.mark.parametrize(
    ("value", "name"),
    [(None, NULL_DIRECTORY), ("", NULL_DIRECTORY), (True, "true"), (7, "7"), ("a/b=c%", "a%2Fb%3Dc%25")],
)
def test_names_of_values(value: object, name: str) -> None:
    assert value_name(value) == name


@given(st.text())
def test_a_name_is_one_directory_and_two_texts_never_share_it(text: str) -> None:
    name = escaped(text)
    assert "/" not in name
    assert "\0" not in name
    parts = name.split("%")
    assert parts[0] + "".join(chr(int(p[:2], 16)) + p[2:] for p in parts[1:]) == text


@pytest.mark.parametrize(("text", "possible"), [("a" * 253, True), ("a" * 254, False), ("é" * 127, False)])
def test_a_name_that_no_file_system_takes(text: str, possible: bool) -> None:
    rows = pa.table({"k": ["us", text], "n": [1, 2]})
    if possible:
        assert plain(partitions(rows, ["k"]))[1] == (f"k={text}", [2])
        return
    with pytest.raises(SinkError, match=r"no directory can be called k=.*\.\.\., which has 25[56] bytes of 255"):
        partitions(rows, ["k"])


@pytest.mark.parametrize(
    ("columns", "message"), [(["ts"], "timestamp"), (["no"], "which they lack"), (["country", "day", "n"], "")]
)
def test_what_makes_no_directories(columns: list[str], message: str) -> None:
    rows = ROWS.drop_columns(["ts"]) if not message else ROWS
    with pytest.raises(SinkError, match=message or "all their columns"):
        partitions(rows, columns)
