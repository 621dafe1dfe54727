from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.values.splits import FilePart
from site_agent.base.errors import EngineError
from site_agent.engine import Field, FilesScan
from site_agent.engine.scans.parts import Origin, cut_out

TEXTS = st.lists(st.sampled_from([b"a,1", b"", b" ", b"\r", b"\xc3\xa9", b"x" * 50, b"\n", b"\r\n"]), max_size=30).map(
    b"".join
)
CUTS = st.lists(st.integers(1, 400), max_size=6)


def parts(path: Path, cuts: Sequence[int]) -> tuple[FilePart, ...]:
    size = path.stat().st_size
    bounds = [0, *sorted({cut for cut in cuts if cut < size}), size]
    return tuple(FilePart(str(path), first, end - first) for first, end in pairwise(bounds))


def scan(found: Sequence[FilePart], kind: str = "csv", **options: str) -> FilesScan:
    columns = (Field("v", "BIGINT"), Field("word", "STRING"))
    return FilesScan(kind, (), columns, ("V", "word"), options, tuple(found))


def contents(wanted: FilesScan) -> Iterator[bytes]:
    with tempfile.TemporaryDirectory() as directory:
        for path in cut_out(wanted, Path(directory)):
            yield Path(path).read_bytes()


@given(TEXTS, CUTS)
def test_parts_of_a_text_are_whole_lines_and_together_the_text(
    tmp_path_factory: pytest.TempPathFactory, text: bytes, cuts: Sequence[int]
) -> None:
    path = tmp_path_factory.getbasetemp() / "text.csv"
    path.write_bytes(text)
    found = list(contents(scan(parts(path, cuts))))
    assert b"".join(found) == text
    assert all(part.endswith(b"\n") for part in [part for part in found if part][:-1])


@given(TEXTS, CUTS)
def test_a_header_heads_each_part_and_is_in_none(
    tmp_path_factory: pytest.TempPathFactory, text: bytes, cuts: Sequence[int]
) -> None:
    path = tmp_path_factory.getbasetemp() / "headed.csv"
    header = b"\r\n \nv,word\n"
    path.write_bytes(header + text)
    found = list(contents(scan(parts(path, cuts), header="true")))
    assert all(part.startswith(header) for part in found)
    assert b"".join(part.removeprefix(header) for part in found) == text


def test_the_first_line_may_end_as_on_an_old_machine(tmp_path: Path) -> None:
    path = tmp_path / "old.csv"
    path.write_bytes(b"v,word\r1,a\r2,b\r")
    found = list(contents(scan(parts(path, [3, 9]), header="true")))
    assert found == [b"v,word\r1,a\r2,b\r", b"v,word\r", b"v,word\r"]


def test_a_whole_file_is_read_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "a.csv.gz"
    path.write_bytes(b"12345")
    assert cut_out(scan([FilePart(str(path), 0, 5)]), tmp_path / "none") == {str(path): Origin(str(path))}


@given(st.lists(st.integers(1, 5), min_size=1, max_size=6), CUTS)
def test_row_groups_are_in_one_part_each(
    tmp_path_factory: pytest.TempPathFactory, groups: Sequence[int], cuts: Sequence[int]
) -> None:
    path = tmp_path_factory.getbasetemp() / "groups.parquet"
    rows = pa.table(
        {"word": ["x" * n for n in range(sum(groups))], "v": list(range(sum(groups))), "z": [0] * sum(groups)}
    )
    with pq.ParquetWriter(path, rows.schema) as writer:
        start = 0
        for count in groups:
            writer.write_table(rows.slice(start, count))
            start += count
    with tempfile.TemporaryDirectory() as directory:
        origins = cut_out(scan(parts(path, cuts), "parquet"), Path(directory))
        found = [pq.read_table(name).select(["word", "v"]) for name in origins]
        assert set(origins.values()) == {Origin(str(path))}
    assert pa.concat_tables(found).equals(rows.select(["word", "v"]))


def test_rows_of_which_no_column_is_read_can_be_counted(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"a": [1, 2, 3], "b": [4, 5, 6]}), path)
    wanted = FilesScan("parquet", (), (), (), {}, (FilePart(str(path), 0, path.stat().st_size - 1),))
    (name,) = cut_out(wanted, tmp_path)
    assert pq.read_table(name).to_pydict() == {"a": [1, 2, 3]}


def test_what_is_no_parquet_is_said(tmp_path: Path) -> None:
    path = tmp_path / "bad.parquet"
    path.write_bytes(b"PAR1 and so on")
    with pytest.raises(EngineError, match=r"bad\.parquet cannot be read as Parquet"):
        cut_out(scan([FilePart(str(path), 0, 5)], "parquet"), tmp_path)
