"""Options of `files`, together and by format, mode and kind of relation."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import pytest

from planner.relations.catalog import Relation, RelationKind
from planner.relations.connectors.files import FILES, SPEED
from planner.relations.options import OptionError

CSV: Mapping[str, str] = {"connector": "files", "path": "/data", "format": "csv"}
REPLAY: Mapping[str, str] = {**CSV, "mode": "replay"}


def check(options: Mapping[str, str], kind: RelationKind = RelationKind.STREAM) -> None:
    FILES.check_options(Relation("r", kind, (), ()), options)


def test_everything_that_fits() -> None:
    check({**CSV, "header": "true", "sep": ";", "null_value": "NA", "timestamp_format": "yyyy", "pattern": "*.x"})
    check({**CSV, "until": "end", "max_files_per_epoch": "3", "idle_timeout": "1 min", "rows_per_second": "5"})
    check({**REPLAY, "replay_speed": "max", "replay_start": "2026-01-01"})
    check({**CSV, "format": "parquet"}, RelationKind.TABLE)


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
    with pytest.raises(OptionError) as caught:
        check(options)
    assert caught.value.message == message
    assert hint in caught.value.hint
    assert f"'{caught.value.option}'" in message or caught.value.option not in options


def test_a_table_takes_no_options_of_streams() -> None:
    with pytest.raises(OptionError, match="'mode' is of no use here"):
        check({**CSV, "mode": "follow"}, RelationKind.TABLE)


def test_speed() -> None:
    assert [SPEED.of({"replay_speed": text}) for text in ("max", "86400", "0.5")] == [None, 86400, Fraction(1, 2)]
    assert SPEED.of({}) == 1
