"""`files`: CSV, JSON lines and Parquet on the site's machine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from fractions import Fraction
from typing import Any

from planner.relations.catalog import Relation, RelationKind
from planner.relations.connectors.common import EXPECTED_RATE, IDLE_TIMEOUT, TIME_TEXT
from planner.relations.connectors.directories import check_partitions, partition_option
from planner.relations.connectors.spec import ConnectorSpec, Traits
from planner.relations.options import (
    Option,
    OptionError,
    one_of,
    optional,
    parse_bool,
    parse_fraction,
    parse_path,
    parse_positive_int,
    parse_timestamp,
)

CSV_FORMAT, JSON_FORMAT, PARQUET_FORMAT = "csv", "json", "parquet"
FOLLOW, REPLAY = "follow", "replay"
DEAD_LETTER, FAIL = "dead_letter", "fail"
END = "end"
AS_FAST_AS_IT_GOES = "max"

_MAX_PATTERN_PARTS = 32
_MAX_WALKS = 2
_LINE_ENDS = ("\n", "\r")


def _parse_speed(text: str) -> Fraction | None:
    if text.strip().lower() == AS_FAST_AS_IT_GOES:
        return None
    speed = parse_fraction(text)
    if speed <= 0:
        raise ValueError(text)
    return speed


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


PATH = Option(
    "path",
    parse_path,
    "the absolute path of a directory or file at the site",
    "",
    required=True,
    summary="Absolute path of a directory, or of one file, below what the site's agent allows.",
)
FORMAT = Option(
    "format",
    one_of(CSV_FORMAT, JSON_FORMAT, PARQUET_FORMAT),
    "csv, json (one object a line) or parquet",
    "",
    required=True,
    summary="`csv`, `json` (one object a line) or `parquet`.",
)
PATTERN = Option(
    "pattern",
    _parse_pattern,
    "a file name pattern as in '*.csv', or '**/*.csv' for all below, without '..' and with two '**' at most",
    "*",
    shown="`*`",
    summary="Which files of the directory: `*.csv`; `**/*.csv` for those in directories below, too. Without `..`; "
    "at most two `**`, each alone between slashes. With `partition_by`, by default `*/*` for one column, and so on.",
)
PARTITION_BY = partition_option(
    "Tables: columns, parted by commas, whose values are in the names of directories below `path`, as in "
    "`country=us/day=2026-01-31/`, and not in the files."
)
HEADER = Option(
    "header",
    parse_bool,
    "true or false",
    default=False,
    shown="`false`",
    summary="CSV: the first line of each file names the columns, in the declared order.",
)
SEPARATOR = Option(
    "sep",
    _parse_separator,
    "one character",
    ",",
    shown="`,`",
    summary="CSV: the character between values; `\\t` is a tab.",
)
QUOTE = Option(
    "quote",
    _parse_mark,
    "one visible ASCII character",
    '"',
    shown='`"`',
    summary="CSV: the character around values that hold separators, quotes or line breaks.",
)
ESCAPE = Option(
    "escape",
    _parse_mark,
    "one visible ASCII character as in '\\'; without it, quotes are doubled",
    "",
    summary="CSV: within quotes, a quote or another escape character after this one is text, as in `\\`. Without it, "
    "quotes are doubled.",
)
NULL_VALUE = Option(
    "null_value",
    str,
    "the text that stands for NULL",
    "",
    shown="empty",
    summary="CSV: the text that stands for NULL, as in `NA`. Empty values are NULL, too, in quotes or not.",
)
TIMESTAMP_FORMAT = Option(
    "timestamp_format",
    _parse_text,
    "a pattern of Spark SQL as in 'yyyy-MM-dd HH:mm'",
    "",
    summary="CSV and JSON: pattern of Spark SQL, as in `yyyy-MM-dd HH:mm`; without it, ISO 8601 with a space or `T`.",
)
MALFORMED = Option(
    "malformed",
    one_of(DEAD_LETTER, FAIL),
    "dead_letter or fail",
    DEAD_LETTER,
    shown=f"`{DEAD_LETTER}`",
    summary="CSV and JSON: what happens with rows that do not fit: `dead_letter` or `fail`, see below.",
)
MODE = Option(
    "mode",
    one_of(FOLLOW, REPLAY),
    "follow or replay",
    FOLLOW,
    shown=f"`{FOLLOW}`",
    summary="Streams: `follow` or `replay`, see below.",
)
MAX_FILES = Option(
    "max_files_per_epoch",
    optional(parse_positive_int),
    "a whole number of at least 1",
    None,
    summary="Most files that an epoch reads. An epoch also ends after 256 MiB; one file is never split. May be changed "
    "while queries run.",
    alterable=True,
)
UNTIL = Option(
    "until",
    one_of("", END),
    END,
    "",
    summary="`end`: the stream ends after the files that were there when the query first looked. Without it, it never "
    "ends.",
)
SPEED: Option[Fraction | None] = Option(
    "replay_speed",
    _parse_speed,
    "event seconds per second as in '3600', or 'max'",
    Fraction(1),
    shown="`1`",
    summary="Event seconds per second: `86400` replays a day each second. `max`: as fast as it goes. May be changed "
    "while queries run.",
    alterable=True,
)
REPLAY_START: Option[datetime | None] = Option(
    "replay_start",
    optional(parse_timestamp),
    TIME_TEXT,
    None,
    shown="first event",
    summary="Event time at which the replay begins. Rows from before are read at once.",
)

_CSV_ONLY = (HEADER, SEPARATOR, QUOTE, ESCAPE, NULL_VALUE)
_TEXT_ONLY = (TIMESTAMP_FORMAT, MALFORMED)
_FOLLOW_ONLY = (UNTIL, MAX_FILES)
_REPLAY_ONLY = (SPEED, REPLAY_START)
_STREAM_ONLY = (MODE, *_FOLLOW_ONLY, *_REPLAY_ONLY)


def _check(relation: Relation, options: Mapping[str, str]) -> None:
    """Each option is of use: to this format, to this mode, to a stream or a table."""
    file_format = FORMAT.of(options)
    if file_format != CSV_FORMAT:
        _refuse(options, _CSV_ONLY, f"'{FORMAT.name}' is {file_format}; it belongs to csv")
    _check_marks(options)
    if file_format == PARQUET_FORMAT:
        _refuse(options, _TEXT_ONLY, f"'{FORMAT.name}' is {file_format}; it belongs to csv and json")
    if MODE.of(options) == REPLAY and relation.by_arrival:
        raise OptionError(
            "rows that are replayed have no time of arrival",
            option=MODE.name,
            hint=f"'{MODE.name}' = '{FOLLOW}', or WATERMARK FOR a TIMESTAMP column",
        )
    if MODE.of(options) == REPLAY:
        _refuse(options, _FOLLOW_ONLY, f"'{MODE.name}' is replay; it belongs to follow")
    else:
        _refuse(options, _REPLAY_ONLY, f"it needs '{MODE.name}' = 'replay'")
    if relation.kind is RelationKind.TABLE:
        _refuse(options, _STREAM_ONLY, "it belongs to streams, and this is a table")
        check_partitions(relation, PARTITION_BY.of(options), PARTITION_BY)
    else:
        _refuse(options, (PARTITION_BY,), "it belongs to tables, and this is a stream")


def pattern_of(options: Mapping[str, str]) -> str:
    """Which files of the directory: by default all in it or, where it is partitioned, in its innermost directories."""
    if PATTERN.name in options:
        return PATTERN.of(options)
    return "/".join(["*"] * (len(PARTITION_BY.of(options)) + 1))


def _check_marks(options: Mapping[str, str]) -> None:
    separator = SEPARATOR.of(options)
    for option in (QUOTE, ESCAPE):
        mark = option.of(options)
        if mark == separator:
            raise OptionError(
                f"option '{option.name}' is {mark!r}, and so is the separator",
                option=option.name if option.name in options else SEPARATOR.name,
                hint=f"'{option.name}' takes another character",
            )


def _refuse(options: Mapping[str, str], unwanted: Sequence[Option[Any]], reason: str) -> None:
    for option in unwanted:
        if option.name in options:
            raise OptionError(
                f"option '{option.name}' is of no use here", option=option.name, at_name=True, hint=reason
            )


FILES = ConnectorSpec(
    name="files",
    roles=frozenset({RelationKind.STREAM, RelationKind.TABLE}),
    options=(
        PATH,
        FORMAT,
        PATTERN,
        PARTITION_BY,
        *_CSV_ONLY,
        *_TEXT_ONLY,
        MODE,
        EXPECTED_RATE,
        *_FOLLOW_ONLY,
        *_REPLAY_ONLY,
        IDLE_TIMEOUT,
    ),
    traits=Traits(arrives=True, rate=EXPECTED_RATE),
    check=_check,
)
