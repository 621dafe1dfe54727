from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import pytest

from site_agent.base.errors import ConnectorError
from site_agent.connectors.files.options import (
    SPEED,
    check_options,
    check_table_options,
    reader_options,
)

CSV: Mapping[str, str] = {"connector": "files", "path": "/data", "format": "csv"}
REPLAY: Mapping[str, str] = {**CSV, "mode": "replay"}


def test_everything_that_fits() -> None:
    check_options(
        {**CSV, "header": "true", "sep": ";", "null_value": "NA", "timestamp_format": "yyyy", "pattern": "*.x"}
    )
    check_options({**CSV, "until": "end", "max_files_per_epoch": "3", "idle_timeout": "1 min", "rows_per_second": "5"})
    check_options({**REPLAY, "replay_speed": "max", "replay_start": "2026-01-01"})
    check_table_options({**CSV, "format": "parquet"})


@pytest.mark.parametrize(
    ("options", "message", "hint"),
    [
        ({}, "option 'path' is missing", "absolute path"),
        ({"path": "data", "format": "csv"}, "option 'path' is 'data'", "absolute path"),
        ({**CSV, "path": "/data\0"}, "option 'path' is '/data\\x00'", "absolute path"),
        *(
            ({**CSV, "pattern": pattern}, f"option 'pattern' is {pattern!r}", "two '**' at most")
            for pattern in ("", "//x", "../x", "a/../x", "\0", "**.csv", "***", "**/" * 3 + "*", "*/" * 32 + "*")
        ),
        ({"path": "/data"}, "option 'format' is missing", "csv, json"),
        ({**CSV, "format": "xml"}, "option 'format' is 'xml'", "csv, json"),
        ({**CSV, "headr": "true"}, "there is no option 'headr'", "'header'"),
        ({**CSV, "header": "1"}, "option 'header' is '1'", "true or false"),
        ({**CSV, "sep": "--"}, "option 'sep' is '--'", "one character"),
        ({**CSV, "sep": "\n"}, "option 'sep' is '\\n'", "one character"),
        ({**CSV, "quote": ","}, "option 'quote' is ',', and so is the separator", "another character"),
        ({**CSV, "quote": "é"}, "option 'quote' is 'é'", "one visible ASCII character"),
        ({**CSV, "escape": "\\\\"}, "option 'escape' is '\\\\\\\\'", "one visible ASCII character"),
        ({**CSV, "format": "json", "escape": "\\"}, "option 'escape' is of no use here", "belongs to csv"),
        ({**CSV, "pattern": "/etc/*"}, "option 'pattern' is '/etc/*'", "pattern"),
        ({**CSV, "mode": "tail"}, "option 'mode' is 'tail'", "follow or replay"),
        ({**CSV, "until": "tomorrow"}, "option 'until' is 'tomorrow'", "end"),
        ({**CSV, "max_files_per_epoch": "0"}, "option 'max_files_per_epoch' is '0'", "at least 1"),
        ({**CSV, "replay_speed": "2"}, "option 'replay_speed' is of no use here", "'mode' = 'replay'"),
        ({**REPLAY, "replay_speed": "0"}, "option 'replay_speed' is '0'", "'max'"),
        ({**REPLAY, "replay_start": "noon"}, "option 'replay_start' is 'noon'", "2026-01-31T12:00:00Z"),
        ({**REPLAY, "until": "end"}, "option 'until' is of no use here", "belongs to follow"),
        ({**CSV, "format": "json", "header": "true"}, "option 'header' is of no use here", "belongs to csv"),
        ({**CSV, "format": "parquet", "timestamp_format": "y"}, "option 'timestamp_format' is of no use here", "csv"),
        ({**CSV, "format": "parquet", "malformed": "fail"}, "option 'malformed' is of no use here", "csv"),
        ({**CSV, "malformed": "skip"}, "option 'malformed' is 'skip'", "dead_letter or fail"),
        ({**CSV, "idle_timeout": "soon"}, "option 'idle_timeout' is 'soon'", "'30 seconds'"),
    ],
)
def test_what_does_not_fit_is_named(options: Mapping[str, str], message: str, hint: str) -> None:
    with pytest.raises(ConnectorError) as caught:
        check_options(options)
    assert caught.value.message == message
    assert hint in caught.value.hint


def test_a_table_takes_no_options_of_streams() -> None:
    with pytest.raises(ConnectorError, match="'mode' is of no use here"):
        check_table_options({**CSV, "mode": "follow"})


def test_speed() -> None:
    assert [SPEED.of({"replay_speed": text}) for text in ("max", "86400", "0.5")] == [None, 86400, Fraction(1, 2)]
    assert SPEED.of({}) == 1


def test_sparks_reader_makes_no_nulls_of_malformed_rows() -> None:
    strict = {"malformed": "fail"}
    told = reader_options(
        {**CSV, **strict, "header": "true", "sep": "\\t", "null_value": "NA", "timestamp_format": "yyyy"}
    )
    assert told == {
        "mode": "FAILFAST",
        "header": "true",
        "sep": "\t",
        "quote": '"',
        "escape": '"',
        "nullValue": "NA",
        "emptyValue": "NA",
        "timestampFormat": "yyyy",
        "enforceSchema": "false",
        "columnPruning": "false",
    }
    assert reader_options({**CSV, **strict, "format": "json"}) == {"mode": "FAILFAST"}
    assert reader_options({**CSV, "format": "json"}) == {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": "_selat_malformed",
    }
    assert reader_options({**CSV, "format": "parquet"}) == {}
