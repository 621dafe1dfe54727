"""Rows that do not fit their columns: found by Spark's readers, told apart here, with the reason.

Spark keeps the text of such a row in a column of its own and leaves NULL in each column whose value did not fit, but
does not say why. The reason is found again from the text, the columns that hold NULL, and the reader's options.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as sf

from planner.values.literals import quoted_name
from site_agent.base.durable import replacing
from site_agent.engine import FilesScan, MalformedFile, MalformedRow
from site_agent.engine.scans.csv_records import MAX_RECORD_BYTES, Dialect

_KINDS: Mapping[type, str] = {list: "an array", str: "a text", bool: "a boolean", int: "a number", float: "a number"}
_SHOWN_CHARACTERS = 80
# The limit holds for the whole process; Python's default is 128 KiB.
csv.field_size_limit(MAX_RECORD_BYTES)


def malformed_rows(
    rows: DataFrame, scan: FilesScan, columns: Sequence[str], *, path_of: Callable[[str], str]
) -> Iterator[MalformedRow]:
    """The malformed rows among those that Spark's reader gives.

    Args:
        columns: The ones that are converted.
        path_of: A file's path, given the URI by which Spark names it.
    """
    empty = [sf.when(sf.col(quoted_name(name)).isNull(), sf.lit(name)) for name in columns]
    text = sf.col(quoted_name(scan.malformed_column))
    file = rows.metadataColumn("_metadata").getField("file_path")
    found = rows.where(text.isNotNull()).select(text, sf.array_compact(sf.array(*empty)), file)
    for line, nulls, uri in found.toLocalIterator():
        yield MalformedRow(path_of(uri), reason_of(scan, line, nulls), line)


def reason_of(scan: FilesScan, text: str, nulls: Sequence[str]) -> str:
    """Why a row does not fit, given the columns that Spark left NULL."""
    try:
        values = _json_values(text) if scan.format == "json" else _csv_values(scan, text)
    except ValueError as error:
        return str(error)
    types = {c.name: c.type for c in scan.columns}
    wrong = [name for name in nulls if values.get(name) is not None]
    if not wrong:
        return "a value does not fit its column"
    return "; ".join(f"{name}: {_shown(values[name])} is no {types[name]}" for name in wrong)


def write_malformed(path: Path, rows: Iterator[MalformedRow]) -> None:
    """Keep rows for `read_malformed`; durable when it returns."""
    with replacing(path) as file:
        for row in rows:
            file.write(json.dumps(asdict(row)).encode() + b"\n")


def read_malformed(kept: MalformedFile) -> Iterator[MalformedRow]:
    """The rows of `write_malformed`. Raises OSError when the file is gone."""
    with Path(kept.path).open("rb") as file:
        for line in file:
            yield MalformedRow(**json.loads(line))


def _json_values(text: str) -> Mapping[str, object]:
    """Values by column. Raises ValueError that says why there are none."""
    try:
        value = json.loads(text)
    except ValueError as error:
        raise ValueError(f"this is no JSON: {error}") from None
    if isinstance(value, list):
        raise ValueError("a value in this array does not fit its column, or is no object")
    if not isinstance(value, dict):
        raise ValueError(f"this is {_KINDS.get(type(value), 'null')}, not an object")
    return value


def _csv_values(scan: FilesScan, text: str) -> Mapping[str, object]:
    """Values by column, None for those that stand for NULL. Raises ValueError when there are too few or too many."""
    try:
        values = next(csv.reader([text], strict=True, **_python_dialect(Dialect.of(scan.options))), [])
    except csv.Error as error:
        raise ValueError(f"this is no CSV row: {error}") from None
    if len(values) != len(scan.columns):
        count = f"{len(values)} value" if len(values) == 1 else f"{len(values)} values"
        raise ValueError(f"{count} for {len(scan.columns)} columns")
    missing = ("", scan.options.get("nullValue", ""))
    return {c.name: None if v in missing else v for c, v in zip(scan.columns, values, strict=True)}


def _python_dialect(dialect: Dialect) -> Mapping[str, Any]:
    doubled = dialect.escape == dialect.quote
    return {
        "delimiter": dialect.separator,
        "quotechar": dialect.quote,
        "doublequote": doubled,
        "escapechar": None if doubled else dialect.escape,
    }


def _shown(value: object) -> str:
    text = repr(value) if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= _SHOWN_CHARACTERS else text[: _SHOWN_CHARACTERS - 3] + "..."
