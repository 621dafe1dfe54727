"""`parquet`: a sink that writes a directory of Parquet files."""

from __future__ import annotations

from collections.abc import Mapping

from planner.relations.catalog import Relation, RelationKind
from planner.relations.connectors.directories import check_partitions, partition_option
from planner.relations.connectors.spec import ConnectorSpec
from planner.relations.options import Option, one_of, parse_duration, parse_path, parse_positive_int


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
PARTITION_BY = partition_option(
    "Columns, parted by commas: one directory for each value, as in `country=us/day=2026-01-31/`."
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

CHANGES = Option(
    "changes",
    one_of("log"),
    "log",
    "",
    summary="`log`: the sink takes the changes of queries with EMIT EVERY, a row for each, with `_op` and `_at`.",
)


def _check(relation: Relation, options: Mapping[str, str]) -> None:
    """The columns of directories are some of the sink's columns, where the sink has its own."""
    check_partitions(relation, PARTITION_BY.of(options), PARTITION_BY)


PARQUET = ConnectorSpec(
    name="parquet",
    roles=frozenset({RelationKind.SINK}),
    options=(PATH, FILE_BYTES, ROLL_INTERVAL, PARTITION_BY, COMPRESSION, CHANGES),
    check=_check,
)
