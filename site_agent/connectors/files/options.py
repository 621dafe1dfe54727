"""Options of the `files` connector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from pathlib import Path

from site_agent.base.errors import ConnectorError
from site_agent.base.options import (
    COMMON_OPTIONS,
    IDLE_TIMEOUT,
    Checked,
    Option,
    one_of,
    parse_bool,
    parse_positive_int,
    parse_timestamp,
    refuse_unknown,
    require,
)
from site_agent.engine import MALFORMED_OPTION
from site_agent.engine.scans.csv_records import Dialect

CSV, JSON, PARQUET = "csv", "json", "parquet"
FOLLOW, REPLAY = "follow", "replay"
AS_FAST_AS_IT_GOES = "max"

_MAX_PATTERN_PARTS = 32
_MAX_WALKS = 2
_LINE_ENDS = ("\n", "\r")
_PATH_TEXT = "the absolute path of a directory or file at the site"


def _parse_speed(text: str) -> Fraction | None:
    if text.strip().lower() == AS_FAST_AS_IT_GOES:
        return None
    speed = Fraction(text)
    if speed <= 0:
        raise ValueError(text)
    return speed


def _parse_optional_timestamp(text: str) -> datetime | None:
    return parse_timestamp(text)


def _parse_optional_int(text: str) -> int | None:
    return parse_positive_int(text)


def _parse_separator(text: str) -> str:
    separator = text.replace("\\t", "\t")
    if len(separator) != 1 or separator in _LINE_ENDS:
        raise ValueError(text)
    return separator


def _parse_mark(text: str) -> str:
    if len(text) != 1 or not text.isascii() or not text.isprintable() or text.isspace():
        raise ValueError(text)
    return text


def _parse_text(text: str) -> str:
    if not text:
        raise ValueError(text)
    return text


def _parse_pattern(text: str) -> str:
    parts = text.split("/")
    if not text or not parts[0] or "\0" in text or ".." in parts or len(parts) > _MAX_PATTERN_PARTS:
        raise ValueError(text)
    # Python walks the whole tree for each `**`, within those that came before: the time is a power of its depth.
    if parts.count("**") > _MAX_WALKS or any("**" in part and part != "**" for part in parts):
        raise ValueError(text)
    return text


FORMAT = Option("format", one_of(CSV, JSON, PARQUET), "csv, json (one object a line) or parquet", "")
PATTERN = Option(
    "pattern",
    _parse_pattern,
    "a file name pattern as in '*.csv', or '**/*.csv' for all below, without '..' and with two '**' at most",
    "*",
)
HEADER = Option("header", parse_bool, "true or false", default=False)
SEPARATOR = Option("sep", _parse_separator, "one character", ",")
QUOTE = Option("quote", _parse_mark, "one visible ASCII character", '"')
ESCAPE = Option("escape", _parse_mark, "one visible ASCII character as in '\\'; without it, quotes are doubled", "")
NULL_VALUE = Option("null_value", str, "the text that stands for NULL", "")
TIMESTAMP_FORMAT = Option("timestamp_format", _parse_text, "a pattern of Spark SQL as in 'yyyy-MM-dd HH:mm'", "")
MODE = Option("mode", one_of(FOLLOW, REPLAY), "follow or replay", FOLLOW)
UNTIL = Option("until", one_of("", "end"), "end", "")
MAX_FILES = Option("max_files_per_epoch", _parse_optional_int, "a whole number of at least 1", None)
SPEED: Option[Fraction | None] = Option(
    "replay_speed", _parse_speed, "event seconds per second as in '3600', or 'max'", Fraction(1)
)
REPLAY_START = Option("replay_start", _parse_optional_timestamp, "a time as in 2026-01-31T12:00:00Z", None)
DEAD_LETTER, FAIL = "dead_letter", "fail"
MALFORMED = Option("malformed", one_of(DEAD_LETTER, FAIL), "dead_letter or fail", DEAD_LETTER)
EXPECTED_RATE = "rows_per_second"
"""What the planner may expect; nothing is read by it."""
MALFORMED_COLUMN = "_selat_malformed"
"""Column that Spark adds while it reads; nobody sees it."""

_CSV_ONLY = (HEADER.name, SEPARATOR.name, QUOTE.name, ESCAPE.name, NULL_VALUE.name)
_TEXT_ONLY = (TIMESTAMP_FORMAT.name, MALFORMED.name)
_FOLLOW_ONLY = (UNTIL.name, MAX_FILES.name)
_REPLAY_ONLY = (SPEED.name, REPLAY_START.name)
_STREAM_ONLY = (MODE.name, *_FOLLOW_ONLY, *_REPLAY_ONLY)
_OPTIONS: tuple[Checked, ...] = (
    FORMAT,
    PATTERN,
    HEADER,
    SEPARATOR,
    QUOTE,
    ESCAPE,
    NULL_VALUE,
    TIMESTAMP_FORMAT,
    MALFORMED,
    MODE,
    UNTIL,
    MAX_FILES,
    SPEED,
    REPLAY_START,
    IDLE_TIMEOUT,
)
_KNOWN = (*COMMON_OPTIONS, "path", EXPECTED_RATE, *(o.name for o in _OPTIONS))


def check_options(options: Mapping[str, str]) -> None:
    """Raises ConnectorError naming the option that is unknown, missing, wrong, or of no use with the others."""
    refuse_unknown(options, _KNOWN)
    path_of(options)
    require(options, FORMAT.name, allowed=FORMAT.allowed)
    for option in _OPTIONS:
        option.of(options)
    file_format, mode = FORMAT.of(options), MODE.of(options)
    if file_format != CSV:
        _refuse(options, _CSV_ONLY, f"'format' is {file_format}; it belongs to csv")
    _check_marks(options)
    if file_format == PARQUET:
        _refuse(options, _TEXT_ONLY, "'format' is parquet; it belongs to csv and json")
    if mode == REPLAY:
        _refuse(options, _FOLLOW_ONLY, "'mode' is replay; it belongs to follow")
    else:
        _refuse(options, _REPLAY_ONLY, "it needs 'mode' = 'replay'")


def check_table_options(options: Mapping[str, str]) -> None:
    """Like `check_options`, for a table."""
    check_options(options)
    _refuse(options, _STREAM_ONLY, "it belongs to streams, and this is a table")


def path_of(options: Mapping[str, str]) -> Path:
    """Raises ConnectorError when the path is missing or relative."""
    path = Path(require(options, "path", allowed=_PATH_TEXT))
    if not path.is_absolute() or "\0" in str(path):
        raise ConnectorError(f"option 'path' is {str(path)!r}", hint=f"'path' takes {_PATH_TEXT}")
    return path


def dialect_of(options: Mapping[str, str]) -> Dialect:
    """The CSV dialect of the options, by default that of RFC 4180. Raises ConnectorError when an option is wrong."""
    quote = QUOTE.of(options)
    return Dialect(SEPARATOR.of(options), quote, ESCAPE.of(options) or quote)


def reader_options(options: Mapping[str, str]) -> dict[str, str]:
    """What Spark's reader is told. A row that does not fit is set aside or fails the epoch; it never becomes NULLs."""
    file_format = FORMAT.of(options)
    if file_format == PARQUET:
        return {}
    if MALFORMED.of(options) == FAIL:
        told = {"mode": "FAILFAST"}
    else:
        told = {"mode": "PERMISSIVE", MALFORMED_OPTION: MALFORMED_COLUMN}
    pattern = TIMESTAMP_FORMAT.of(options)
    if pattern:
        told["timestampFormat"] = pattern
    if file_format == CSV:
        header = HEADER.of(options)
        dialect = dialect_of(options)
        null = NULL_VALUE.of(options)
        # Spark's reader gives `emptyValue` for a pair of quotes, and then NULL for what equals `nullValue`.
        told |= {"header": str(header).lower(), "nullValue": null, "emptyValue": null}
        told |= {"sep": dialect.separator, "quote": dialect.quote, "escape": dialect.escape}
        # Else Spark takes columns by position whatever the header says, and does not notice rows that are too short.
        told |= {"enforceSchema": str(not header).lower(), "columnPruning": "false"}
    return told


def _check_marks(options: Mapping[str, str]) -> None:
    dialect = dialect_of(options)
    for name, mark in ((QUOTE.name, dialect.quote), (ESCAPE.name, dialect.escape)):
        if mark == dialect.separator:
            raise ConnectorError(
                f"option '{name}' is {mark!r}, and so is the separator", hint=f"'{name}' takes another character"
            )


def _refuse(options: Mapping[str, str], unwanted: Sequence[str], reason: str) -> None:
    for name in unwanted:
        if name in options:
            raise ConnectorError(f"option '{name}' is of no use here", hint=reason)
