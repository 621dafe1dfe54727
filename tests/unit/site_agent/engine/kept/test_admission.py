from __future__ import annotations

import pyarrow as pa
import pytest

from site_agent.engine import Admission
from site_agent.engine.kept.admission import admitted

TIMES = [5, None, 9, 2]


def rows(type_: pa.DataType | None = None) -> pa.Table:
    return pa.table({"ts": pa.array(TIMES, type_ or pa.timestamp("us", tz="UTC")), "n": range(4)})


@pytest.mark.parametrize(
    ("watermark_us", "kept", "late"), [(None, [0, 2, 3], 1), (2, [0, 2, 3], 1), (5, [0, 2], 2), (10, [], 4)]
)
@pytest.mark.parametrize("type_", [pa.timestamp("us", tz="UTC"), pa.timestamp("us")])
def test_rows_behind_the_watermark_or_without_a_time_are_late(
    watermark_us: int | None, kept: list[int], late: int, type_: pa.DataType
) -> None:
    found = admitted(rows(type_), Admission("ts", watermark_us))
    assert found is not None
    assert (found.rows["n"].to_pylist(), found.rows_late, found.max_event_time_us) == (kept, late, 9)


def test_without_admission_all_rows_are_let_in() -> None:
    table = rows()
    found = admitted(table, None)
    assert found is not None
    assert (found.rows, found.rows_late, found.max_event_time_us) == (table, 0, None)


def test_no_rows_have_no_newest_time() -> None:
    found = admitted(rows().slice(0, 0), Admission("ts", 5))
    assert found is not None
    assert (found.rows.num_rows, found.rows_late, found.max_event_time_us) == (0, 0, None)


@pytest.mark.parametrize("type_", [pa.timestamp("ns", tz="UTC"), pa.timestamp("us", tz="Asia/Tokyo"), pa.int64()])
def test_other_types_are_left_to_spark(type_: pa.DataType) -> None:
    assert admitted(rows(type_), Admission("ts", 5)) is None


def test_a_column_that_is_not_there_or_there_twice_is_left_to_spark() -> None:
    assert admitted(rows(), Admission("TS", 5)) is None
    twice = pa.Table.from_arrays([rows()["ts"], rows()["ts"]], names=["ts", "ts"])
    assert admitted(twice, Admission("ts", 5)) is None
