"""Records of a CSV text are those of a plain walk over its characters, of Python's reader and of DuckDB."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from itertools import pairwise

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from site_agent.engine.scans import csv_records
from site_agent.engine.scans.csv_records import Dialect, chunks, first_record, record_starts

Record = tuple[str, bool]
"""A record's text, and True if it is broken."""

DIALECTS = st.sampled_from(
    [Dialect(), Dialect(escape="\\"), Dialect(";"), Dialect("é"), Dialect("\t", "'", "'"), Dialect("|", "'", "^")]
)
TEXTS = st.text("a,\"\n\r\\;é\ufeff'|\t^", max_size=40)
FIELDS = st.text(st.sampled_from("ab,\"\n\r é'\u2028") | st.characters(codec="utf-8"), max_size=12)
TABLES = st.lists(st.lists(FIELDS, min_size=2, max_size=2), max_size=12)


def walked(text: str, dialect: Dialect) -> list[Record]:
    """The records of a text, found character by character."""
    records: list[Record] = []
    position, start, state, broken = int(text.startswith("\ufeff")), 0, "start", False
    while position < len(text):
        here, follower = text[position], text[position + 1 : position + 2]
        step = 1
        if state == "quoted":
            if here == dialect.escape and follower and follower in (dialect.quote, dialect.escape):
                step = 2
            elif here == dialect.quote:
                state = "closed"
        elif here in "\r\n":
            records.append((text[start:position], broken))
            step = 2 if here + follower == "\r\n" else 1
            start, state, broken = position + step, "start", False
        elif here == dialect.separator:
            state = "start"
        else:
            broken = broken or state == "closed"
            state = "quoted" if state == "start" and here == dialect.quote else "text"
        position += step
    if start < len(text):
        records.append((text[start:], broken or state == "quoted"))
    return records


def scanned(text: str, dialect: Dialect, chunk_bytes: int) -> list[Record]:
    data = text.encode()
    found = list(chunks(io.BytesIO(data), dialect, chunk_bytes=chunk_bytes))
    assert b"".join(chunk.data for chunk in found) == data
    broken = {(b.start, b.end) for chunk in found for b in chunk.broken}
    breaks = [place for chunk in found for place in chunk.breaks.tolist()]
    starts = [0, *(place for chunk in found for place in chunk.next_starts().tolist())]
    bounds = [*zip(starts, breaks, strict=False), *([(starts[-1], len(data))] if starts[-1] < len(data) else [])]
    assert broken <= set(bounds)
    return [(data[start:end].decode(), (start, end) in broken) for start, end in bounds]


def as_csv(rows: Sequence[Sequence[str]], line_end: str = "\r\n") -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=line_end, quoting=csv.QUOTE_ALL).writerows(rows)
    return text.getvalue()


@settings(max_examples=1000, deadline=None)
@given(TEXTS, DIALECTS, st.integers(1, 50))
def test_any_text_has_the_records_that_a_plain_walk_finds(text: str, dialect: Dialect, chunk_bytes: int) -> None:
    assert scanned(text, dialect, chunk_bytes) == walked(text, dialect)


@given(TABLES, st.sampled_from(["\n", "\r\n"]), st.integers(1, 200))
def test_what_python_writes_has_the_records_that_python_reads(
    rows: list[list[str]], line_end: str, chunk_bytes: int
) -> None:
    records = scanned(as_csv(rows, line_end), Dialect(), chunk_bytes)
    assert not any(broken for _, broken in records)
    assert [next(csv.reader(io.StringIO(text, newline=""))) for text, _ in records] == rows


@settings(max_examples=20, deadline=None)
@given(st.lists(st.lists(FIELDS.map(lambda text: text.replace("\0", "")), min_size=2, max_size=2), min_size=1))
def test_duckdb_reads_as_many_records(tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]) -> None:
    path = tmp_path_factory.getbasetemp() / "duck.csv"
    path.write_text(as_csv(rows, "\n"), newline="")
    options = "delim=',', quote='\"', escape='\"', header=false, auto_detect=false, nullstr='-', new_line='\\n'"
    columns = "columns={'a': 'VARCHAR', 'b': 'VARCHAR'}"
    with duckdb.connect() as database:
        (counted,) = database.execute(f"SELECT count(*) FROM read_csv('{path}', {options}, {columns})").fetchall()
    assert counted[0] == len(scanned(as_csv(rows, "\n"), Dialect(), 64)) == len(rows)


@given(TEXTS, DIALECTS, st.lists(st.integers(0, 200), max_size=5).map(sorted))
def test_cuts_are_between_records_and_behind_a_line_feed(
    tmp_path_factory: pytest.TempPathFactory, text: str, dialect: Dialect, wanted: list[int]
) -> None:
    data = text.encode()
    wanted = [place for place in wanted if place <= len(data)]
    path = tmp_path_factory.getbasetemp() / "cut.csv"
    path.write_bytes(data)
    found = record_starts(str(path), dialect, wanted)
    if dialect.quote not in text:
        assert list(found) == wanted
        return
    starts = [c for chunk in chunks(io.BytesIO(data), dialect) for c in chunk.next_starts().tolist()]
    allowed = [start for start in starts if data[start - 1 : start] == b"\n"]
    assert list(found) == [min((a for a in allowed if a >= place), default=len(data)) for place in wanted]


@given(TABLES, st.lists(st.integers(0, 300), max_size=6))
def test_parts_have_each_record_once(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], cuts: list[int]
) -> None:
    data = as_csv(rows).encode()
    path = tmp_path_factory.getbasetemp() / "parts.csv"
    path.write_bytes(data)
    wanted = sorted({cut for cut in cuts if cut < len(data)})
    bounds = [0, *record_starts(str(path), Dialect(), wanted), len(data)]
    texts = [data[start:end].decode() for start, end in pairwise(bounds)]
    assert [row for text in texts for row in csv.reader(io.StringIO(text, newline=""))] == rows


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b'a,"b"c\n', "text follows the quote that closes a value"),
        (b'a,"b" \n', "text follows the quote that closes a value"),
        (b'a,"b"c', "text follows the quote that closes a value"),
        (b'a,"b\nc\n', "a quoted value is not closed by the end of the file"),
        (b"a" * 300 + b"\n", "the record has 300 bytes, more than 256"),
        (b'"' + b"a\n" * 200 + b'"\n', "the record has 402 bytes, more than 256"),
        (
            b'"' + b"a\n" * 200,
            "a quoted value is not closed by the end of the file; the record has 401 bytes, more than 256",
        ),
    ],
)
@pytest.mark.parametrize("chunk_bytes", [1, 100, 10_000])
def test_a_broken_record_has_a_reason_and_ends(
    monkeypatch: pytest.MonkeyPatch, text: bytes, reason: str, chunk_bytes: int
) -> None:
    monkeypatch.setattr(csv_records, "MAX_RECORD_BYTES", 256)
    found = list(chunks(io.BytesIO(b"1,2\n" + text), Dialect(), chunk_bytes=chunk_bytes))
    (broken,) = [b for chunk in found for b in chunk.broken]
    assert (broken.start, broken.reason) == (4, reason)
    assert max(len(chunk.data) for chunk in found) <= 2 * chunk_bytes + 8


def test_a_header_is_a_record() -> None:
    text = b'\xef\xbb\xbf"a\nb",c\r\n1,2\n'
    assert first_record(io.BytesIO(text), Dialect(), white=b" \n\r") == text[:-4]
    assert first_record(io.BytesIO(b" \n\na\n1\n"), Dialect(), white=b" \n\r") == b" \n\na\n"
    assert first_record(io.BytesIO(b"a"), Dialect(), white=b" \n\r") == b"a"
