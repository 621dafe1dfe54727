"""What the options of `files` mean to readers of files."""

from __future__ import annotations

from collections.abc import Mapping

from planner.relations.connectors.files import (
    CSV_FORMAT,
    ESCAPE,
    FAIL,
    FORMAT,
    HEADER,
    MALFORMED,
    NULL_VALUE,
    PARQUET_FORMAT,
    QUOTE,
    SEPARATOR,
    TIMESTAMP_FORMAT,
)
from site_agent.engine import MALFORMED_OPTION
from site_agent.engine.scans.csv_records import Dialect

MALFORMED_COLUMN = "_selat_malformed"
"""Column that Spark adds while it reads; nobody sees it."""


def dialect_of(options: Mapping[str, str]) -> Dialect:
    """The CSV dialect of the options, by default that of RFC 4180."""
    quote = QUOTE.of(options)
    return Dialect(SEPARATOR.of(options), quote, ESCAPE.of(options) or quote)


def reader_options(options: Mapping[str, str]) -> dict[str, str]:
    """What Spark's reader is told. A row that does not fit is set aside or fails the epoch; it never becomes NULLs."""
    file_format = FORMAT.of(options)
    if file_format == PARQUET_FORMAT:
        return {}
    if MALFORMED.of(options) == FAIL:
        told = {"mode": "FAILFAST"}
    else:
        told = {"mode": "PERMISSIVE", MALFORMED_OPTION: MALFORMED_COLUMN}
    pattern = TIMESTAMP_FORMAT.of(options)
    if pattern:
        told["timestampFormat"] = pattern
    if file_format == CSV_FORMAT:
        header = HEADER.of(options)
        dialect = dialect_of(options)
        null = NULL_VALUE.of(options)
        # Spark's reader gives `emptyValue` for a pair of quotes, and then NULL for what equals `nullValue`.
        told |= {"header": str(header).lower(), "nullValue": null, "emptyValue": null}
        told |= {"sep": dialect.separator, "quote": dialect.quote, "escape": dialect.escape}
        # Else Spark takes columns by position whatever the header says, and does not notice rows that are too short.
        told |= {"enforceSchema": str(not header).lower(), "columnPruning": "false"}
    return told
