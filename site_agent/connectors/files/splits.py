"""How a table's files are cut into splits.

Text is cut at any byte: the reader of a part finds its lines. CSV with quotes is cut between records; a line feed alone
does not separate them, so the file is read once to find them. Parquet is cut between row groups. Files that can only be
read from their beginning, compressed text above all, stay whole. Small files share a split.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq

from planner.relations.connectors.files import PARQUET_FORMAT
from planner.values.splits import FilePart
from site_agent.base.errors import ConnectorError
from site_agent.connectors.files.listing import FoundFile
from site_agent.connectors.sources import MAX_SPLITS, Split
from site_agent.engine.scans.csv_records import Dialect, record_starts
from site_agent.engine.scans.row_groups import can_be_rewritten, row_groups

COMPRESSED_ENDS = (".gz", ".bz2", ".deflate", ".snappy", ".lz4", ".zst")
"""Names of files that Spark decompresses."""


def splits_of(
    files: Sequence[FoundFile], file_format: str, split_bytes: int, dialect: Dialect | None = None
) -> Sequence[Split]:
    """Splits of about `split_bytes`, in the order of the files. CSV is cut between records of the `dialect`.

    Raises:
        ConnectorError: a file cannot be read, or `split_bytes` is less than 1.
    """
    if split_bytes < 1:
        raise ConnectorError(f"splits of {split_bytes} bytes were asked for", hint="a split has at least 1 byte")
    split_bytes = max(split_bytes, sum(found.size_bytes for found in files) // MAX_SPLITS)
    cut = _parquet_parts if file_format == PARQUET_FORMAT else partial(_text_parts, dialect=dialect)
    return tuple(_packed((part for found in files for part in cut(found, split_bytes)), split_bytes))


def _text_parts(found: FoundFile, split_bytes: int, dialect: Dialect | None) -> Iterator[FilePart]:
    size_bytes = found.size_bytes
    whole = found.path.lower().endswith(COMPRESSED_ENDS)
    count = 1 if whole else max(1, round(size_bytes / split_bytes))
    cuts = tuple(size_bytes * number // count for number in range(1, count))
    if dialect is not None and cuts:
        cuts = _record_starts(found, dialect, cuts)
    for first, end in pairwise((0, *cuts, size_bytes)):
        if first < end:
            yield FilePart(found.path, first, end - first)


# Many queries read the same table: the places are kept as long as the file is the same.
@lru_cache(maxsize=1024)
def _record_starts(found: FoundFile, dialect: Dialect, wanted: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return tuple(record_starts(found.path, dialect, wanted))
    except OSError as error:
        raise ConnectorError(f"{found.path} cannot be read: {error.strerror}") from error


def _parquet_parts(found: FoundFile, split_bytes: int) -> Iterator[FilePart]:
    try:
        with pq.ParquetFile(found.path) as file:
            metadata = file.metadata
    except (pa.ArrowException, OSError) as error:
        raise ConnectorError(f"{found.path} cannot be read as Parquet: {error}") from error
    if not can_be_rewritten(metadata):
        yield FilePart(found.path, 0, found.size_bytes)
        return
    groups = sorted(row_groups(metadata), key=lambda group: group.offset)
    cuts, taken_bytes = [0], 0
    for group in groups:
        if taken_bytes and taken_bytes + group.size_bytes > split_bytes:
            cuts.append(group.offset)
            taken_bytes = 0
        taken_bytes += group.size_bytes
    if metadata.num_rows:
        yield from (FilePart(found.path, first, end - first) for first, end in pairwise([*cuts, found.size_bytes]))


def _packed(parts: Iterable[FilePart], split_bytes: int) -> Iterator[Split]:
    taken: list[FilePart] = []
    size_bytes = 0
    for part in parts:
        if taken and size_bytes + part.length > split_bytes:
            yield Split(tuple(taken), size_bytes)
            taken, size_bytes = [], 0
        taken.append(part)
        size_bytes += part.length
    if taken:
        yield Split(tuple(taken), size_bytes)
