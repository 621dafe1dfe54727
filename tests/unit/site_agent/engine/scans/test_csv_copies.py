from __future__ import annotations

import csv
import gzip
import io
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from site_agent.base.errors import EngineError
from site_agent.engine.scans import csv_copies
from site_agent.engine.scans.csv_copies import ReadableCsv, readable
from site_agent.engine.scans.csv_records import Dialect, chunks
from site_agent.engine.scans.parts import Origin

ORIGIN = Origin("/data/a.csv", 100)


def written(directory: Path, text: bytes, name: str = "text.csv") -> ReadableCsv:
    (directory / name).write_bytes(text)
    return readable(str(directory / name), Dialect(), directory / "copy", ORIGIN)


@pytest.mark.parametrize("text", [b"", b"a,b\r\n", b'"a,""b""",5" pipe\n"",x\n', b'"a",b', b'\xef\xbb\xbf"a",b\n'])
def test_a_file_whose_lines_are_records_is_read_where_it_is(tmp_path: Path, text: bytes) -> None:
    assert written(tmp_path, text) == ReadableCsv(str(tmp_path / "text.csv"))


def test_line_breaks_within_quotes_stay_and_others_become_another_character(tmp_path: Path) -> None:
    found = written(tmp_path, b'"a\nb","c\r\nd"\r\n1,2\n"x\ry",\r3,4')
    assert (found.record_end, found.broken) == ("\x1e", ())
    assert Path(found.path).read_bytes() == b'"a\nb","c\r\nd"\x1e1,2\x1e"x\ry",\x1e3,4'


def test_a_character_that_the_text_has_ends_no_record(tmp_path: Path) -> None:
    assert written(tmp_path, b'"a\n\x1e",\x1f\n').record_end == "\x1d"
    with pytest.raises(EngineError, match=r"/data/a\.csv has line breaks within quotes, and all control characters"):
        written(tmp_path, b'"\n"' + bytes(range(0x20)))


def test_compressed_text_is_decompressed(tmp_path: Path) -> None:
    plain = written(tmp_path, gzip.compress(b"a,b\n"), "plain.csv.gz")
    assert plain.path == str(tmp_path / "plain.csv.gz")
    found = written(tmp_path, gzip.compress(b'"a\nb",1\n'), "text.csv.gz")
    assert Path(found.path).read_bytes() == b'"a\nb",1\x1e'
    assert written(tmp_path, b"no gzip", "bad.csv.gz").path == str(tmp_path / "bad.csv.gz")


def test_broken_records_are_set_aside_with_their_place(tmp_path: Path) -> None:
    found = written(tmp_path, b'1,2\n"a"b,"c\nd"\n3,4\n5,"open\n6,7\n')
    assert Path(found.path).read_bytes() == b"1,2\x1e\x1e3,4\x1e"
    assert [(row.file, row.reason, row.row) for row in found.broken] == [
        ("/data/a.csv", "record at byte 104: text follows the quote that closes a value", '"a"b,"c\nd"'),
        (
            "/data/a.csv",
            "record at byte 119: a quoted value is not closed by the end of the file",
            '5,"open\n6,7\n',
        ),
    ]


def test_of_a_long_broken_record_the_beginning_is_kept(tmp_path: Path) -> None:
    found = written(tmp_path, b'1,2\n"' + b"x" * (9 * 1024 * 1024))
    (row,) = found.broken
    assert row.row == '"' + "x" * (64 * 1024 - 1)
    assert Path(found.path).read_bytes() == b"1,2\x1e"


@settings(max_examples=300, deadline=None)
@given(st.text('a,"\n\r\\é', max_size=60), st.integers(1, 40))
def test_a_copy_has_the_sound_records_and_the_others_are_set_aside(
    tmp_path_factory: pytest.TempPathFactory, text: str, chunk_bytes: int
) -> None:
    directory = tmp_path_factory.getbasetemp()
    data = text.encode()
    found = list(chunks(io.BytesIO(data), Dialect()))
    broken = {(b.start, b.end) for chunk in found for b in chunk.broken}
    breaks = [place for chunk in found for place in chunk.breaks.tolist()]
    starts = [0, *(place for chunk in found for place in chunk.next_starts().tolist())]
    records = list(zip(starts, [*breaks, len(data)], strict=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_copies, "chunks", lambda s, d: chunks(s, d, chunk_bytes=chunk_bytes))
        result = written(directory, data)
    assert [row.row for row in result.broken] == [data[a:b].decode() for a, b in records if (a, b) in broken]
    if result.record_end:
        kept = Path(result.path).read_bytes().split(b"\x1e")
        sound = [data[a:b] for a, b in records if (a, b) not in broken]
        assert [record for record in kept if record] == [record for record in sound if record]
    else:
        lines = list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline="")))
        assert len([line for line in lines if line]) == len([1 for a, b in records if data[a:b]])
