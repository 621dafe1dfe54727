"""`parquet`: a sink that writes a directory of Parquet files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from planner.relations.catalog import Column, Relation, RelationKind
from planner.relations.connectors.spec import ConnectorSpec
from planner.relations.options import Option, OptionError, one_of, parse_duration, parse_path, parse_positive_int

_PARTITION_TYPES = frozenset({"STRING", "TINYINT", "SMALLINT", "INT", "BIGINT", "BOOLEAN", "DATE"})
"""Types whose values make names of directories."""


def _parse_names(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise ValueError(text)
    return names


def _parse_positive_duration_s(text: str) -> float:
    seconds = parse_duration(text).total_seconds()
    if seconds <= 0:
        raise ValueError(text)
    return seconds


PATH = Option(
    "path",
    parse_path,
    "the absolute path of a directory at the site",
    "",
    required=True,
    summary="Absolute path of the directory, below what the site's agent allows; made when it is not there.",
)
FILE_BYTES = Option(
    "target_file_bytes",
    parse_positive_int,
    "a whole number of bytes, at least 1",
    64 * 1024 * 1024,
    shown="`67108864`",
    summary="A file is written when the rows collected for it take so many bytes in memory. (As Parquet they take "
    "less.) Where rows for two files are waiting, and are 256 MiB at most, both are collected and encoded at the same "
    "time.",
    alterable=True,
)
ROLL_INTERVAL = Option(
    "roll_interval",
    _parse_positive_duration_s,
    "a duration above 0 as in '1 minute'",
    60.0,
    shown="`1 minute`",
    summary="A file is written so long after the first of its rows came, however few there are.",
    alterable=True,
)
PARTITION_BY: Option[tuple[str, ...]] = Option(
    "partition_by",
    _parse_names,
    "names of columns as in 'country, day'",
    (),
    summary="Columns, parted by commas: one directory for each value, as in `country=us/day=2026-01-31/`.",
)
COMPRESSION = Option(
    "compression",
    one_of("zstd", "snappy", "gzip", "none"),
    "zstd, snappy, gzip or none",
    "zstd",
    shown="`zstd`",
    summary="`zstd`, `snappy`, `gzip` or `none`.",
    alterable=True,
)


def _check(relation: Relation, options: Mapping[str, str]) -> None:
    """The columns of directories are some of the sink's columns, where the sink has its own."""
    names = PARTITION_BY.of(options)
    if relation.columns:
        for name in names:
            _check_column(name, relation.columns)
        if len(names) == len(relation.columns):
            raise _partition_error(
                "the sink is partitioned by all its columns, and its files would have none", "leave one out"
            )


def _check_column(name: str, columns: Sequence[Column]) -> None:
    known = {column.name: column.type for column in columns}
    if name not in known:
        close = get_close_matches(name, known, n=1)
        hint = f"did you mean '{close[0]}'?" if close else f"its columns are {', '.join(known)}"
        raise _partition_error(f"the sink is partitioned by {name}, which is none of its columns", hint)
    # A query's column has no type before Spark was asked.
    if known[name] and known[name].upper() not in _PARTITION_TYPES:
        raise _partition_error(
            f"the sink is partitioned by {name}, which is {known[name]}",
            "texts, whole numbers, BOOLEAN and DATE make names of directories",
        )


def _partition_error(message: str, hint: str) -> OptionError:
    return OptionError(message, option=PARTITION_BY.name, hint=hint)


PARQUET = ConnectorSpec(
    name="parquet",
    roles=frozenset({RelationKind.SINK}),
    options=(PATH, FILE_BYTES, ROLL_INTERVAL, PARTITION_BY, COMPRESSION),
    check=_check,
)
