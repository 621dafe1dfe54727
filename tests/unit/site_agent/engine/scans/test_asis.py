from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from site_agent.base.errors import EngineError
from site_agent.engine import Field, FilesScan
from site_agent.engine.chunks import CHUNK_BYTES, Chunks
from site_agent.engine.scans.asis import chunks_as_they_are

COLUMNS = (Field("id", "BIGINT"), Field("Name", "STRING"), Field("at", "TIMESTAMP"), Field("v", "DOUBLE"))
OUTPUT = pa.schema([("number", pa.int64()), ("name", pa.string())])


def chunks(*paths: Path, columns: tuple[str, ...] = ("id", "Name"), kept: ExitStack | None = None) -> Chunks | None:
    scan = FilesScan("parquet", tuple(map(str, paths)), COLUMNS, columns)
    schema = OUTPUT if len(columns) == 2 else pa.schema([OUTPUT.field(0), *[OUTPUT.field(1)] * (len(columns) - 1)])
    return chunks_as_they_are(columns, scan, scan.paths, schema, kept or ExitStack())


def written(path: Path, columns: dict[str, Any], **options: Any) -> Path:
    pq.write_table(pa.table(columns), path, **options)
    return path


def rows_of(found: Chunks | None) -> pa.Table:
    assert found is not None
    with found:
        return pa.concat_tables(found.tables)


def test_columns_are_found_whatever_their_case_and_named_as_the_output_is(tmp_path: Path) -> None:
    first = written(tmp_path / "1.parquet", {"x": [1.5, 2.5], "NAME": ["a", None], "ID": [1, 2]})
    second = written(tmp_path / "2.parquet", {"Id": [3], "name": ["c"]})
    found = chunks(first, second)
    assert found is not None
    assert found.rows == 3
    rows = rows_of(found)
    assert rows.schema == OUTPUT
    assert rows.to_pydict() == {"number": [1, 2, 3], "name": ["a", None, "c"]}


def test_a_column_may_be_there_twice(tmp_path: Path) -> None:
    path = written(tmp_path / "1.parquet", {"id": [1], "name": ["a"]})
    rows = rows_of(chunks(path, columns=("id", "Name", "Name")))
    assert [column.to_pylist() for column in rows.columns] == [[1], ["a"], ["a"]]


def test_many_rows_come_chunk_by_chunk_and_in_order(tmp_path: Path) -> None:
    numbers = pa.array(range(1_500_000))
    names = pa.DictionaryArray.from_arrays(pa.array([0] * len(numbers)), ["x" * 30]).cast(pa.string())
    path = written(tmp_path / "1.parquet", {"id": numbers, "name": names}, row_group_size=400_000)
    found = chunks(path)
    assert found is not None
    first = 0
    for table in found.tables:
        assert table.nbytes <= CHUNK_BYTES
        assert table.column("number").to_pylist() == list(range(first, first + table.num_rows))
        first += table.num_rows
    assert first == found.rows == len(numbers)


def test_long_rows_are_read_a_few_at_a_time(tmp_path: Path) -> None:
    names = [f"{n:02}" * 500_000 for n in range(50)]
    found = chunks(written(tmp_path / "1.parquet", {"id": range(50), "name": names}))
    assert found is not None
    tables = list(found.tables)
    assert max(table.nbytes for table in tables) <= CHUNK_BYTES
    assert pa.concat_tables(tables).column("name").to_pylist() == names


@pytest.mark.parametrize(
    "columns",
    [
        {"id": [1]},
        {"id": pa.array([1], pa.int32()), "name": ["a"]},
        {"id": [1], "name": [b"a"]},
        {"id": [1], "name": pa.array(["a"]).dictionary_encode()},
        {"id": [1], "name": pa.array(["a"], pa.large_string())},
        {"id": [1], "name": ["a"], "NAME": ["b"]},
    ],
)
def test_a_file_with_other_columns_is_left_to_spark(tmp_path: Path, columns: dict[str, Any]) -> None:
    good = written(tmp_path / "1.parquet", {"id": [1], "name": ["a"]})
    assert chunks(good) is not None
    assert chunks(good, written(tmp_path / "2.parquet", columns)) is None


def test_types_that_the_two_may_read_differently_are_left_to_spark(tmp_path: Path) -> None:
    at = pa.array([0], pa.timestamp("us", tz="UTC"))
    assert chunks(written(tmp_path / "1.parquet", {"id": [1], "at": at}), columns=("id", "at")) is None


def test_what_cannot_be_read_is_left_to_spark(tmp_path: Path) -> None:
    (tmp_path / "1.parquet").write_bytes(b"PAR1 no, it is not PAR1")
    assert chunks(tmp_path / "1.parquet") is None
    assert chunks(tmp_path / "2.parquet") is None


@pytest.mark.parametrize("replaced", [True, False])
def test_a_file_that_changes_before_it_is_read_is_an_error(tmp_path: Path, replaced: bool) -> None:
    path = written(tmp_path / "1.parquet", {"id": [1], "name": ["a"]})
    found = chunks(path)
    if replaced:
        written(path, {"id": [1, 2], "name": ["a", "b"]})
    else:
        path.unlink()
    with pytest.raises(EngineError, match=r"1\.parquet"):
        rows_of(found)


def test_what_keeps_the_files_lasts_as_long_as_the_rows(tmp_path: Path) -> None:
    path = written(tmp_path / "1.parquet", {"id": [1], "name": ["a"]})
    with ExitStack() as kept:
        kept.callback(path.unlink)
        found = chunks(path, kept=kept)
    assert rows_of(found).num_rows == 1
    assert not path.exists()

    path = written(tmp_path / "2.parquet", {"id": [1]})
    with ExitStack() as kept:
        kept.callback(path.unlink)
        assert chunks(path, kept=kept) is None
    assert not path.exists()
