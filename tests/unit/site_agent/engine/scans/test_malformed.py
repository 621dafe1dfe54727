from __future__ import annotations

from pathlib import Path

import pytest

from site_agent.engine import Field, FilesScan, MalformedFile, MalformedRow
from site_agent.engine.scans.malformed import read_malformed, reason_of, write_malformed

COLUMNS = (Field("ts", "TIMESTAMP"), Field("k", "INT"))


@pytest.mark.parametrize(
    ("row", "nulls", "reason"),
    [
        ("2026-01-01,one", ("k",), "k: 'one' is no INT"),
        ("yesterday,one", ("ts", "k"), "ts: 'yesterday' is no TIMESTAMP; k: 'one' is no INT"),
        ("NA,one", ("ts", "k"), "k: 'one' is no INT"),
        (",one", ("ts", "k"), "k: 'one' is no INT"),
        ("2026-01-01", ("k",), "1 value for 2 columns"),
        ('"2026-01-01",1,"a,b"', (), "3 values for 2 columns"),
        ('"2026', ("ts", "k"), "this is no CSV row: unexpected end of data"),
        ("2026-01-01,1", (), "a value does not fit its column"),
    ],
)
def test_why_a_csv_row_does_not_fit(row: str, nulls: tuple[str, ...], reason: str) -> None:
    scan = FilesScan("csv", (), COLUMNS, ("ts", "k"), {"sep": ",", "nullValue": "NA"})
    assert reason_of(scan, row, nulls) == reason


@pytest.mark.parametrize(
    ("row", "nulls", "reason"),
    [
        ('{"k": "one"}', ("ts", "k"), "k: 'one' is no INT"),
        ('{"k": 1.5, "ts": null}', ("ts", "k"), "k: 1.5 is no INT"),
        ('{"k": {"a": [1]}}', ("k",), 'k: {"a": [1]} is no INT'),
        ('{"k": 1', ("ts", "k"), "this is no JSON: Expecting ',' delimiter: line 1 column 8 (char 7)"),
        ("5", ("ts", "k"), "this is a number, not an object"),
        ('"x"', ("ts", "k"), "this is a text, not an object"),
        ('[{"k": "one"}]', ("k",), "a value in this array does not fit its column, or is no object"),
        ('{"k": 1}', (), "a value does not fit its column"),
    ],
)
def test_why_a_json_row_does_not_fit(row: str, nulls: tuple[str, ...], reason: str) -> None:
    assert reason_of(FilesScan("json", (), COLUMNS, ("ts", "k")), row, nulls) == reason


def test_a_long_value_is_cut_short() -> None:
    reason = reason_of(FilesScan("json", (), COLUMNS, ("k",)), f'{{"k": "{"x" * 1000}"}}', ("k",))
    assert reason == f"k: '{'x' * 76}... is no INT"


def test_rows_are_kept_as_they_are(tmp_path: Path) -> None:
    rows = [MalformedRow("/a b.csv", "why", 'x\ty\n"\u00e9"'), MalformedRow("/c", "", "")]
    write_malformed(tmp_path / "kept", iter(rows))
    assert list(read_malformed(MalformedFile(str(tmp_path / "kept"), 2))) == rows
