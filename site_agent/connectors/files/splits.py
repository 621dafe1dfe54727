"""How a table's files are cut into splits.

Text is cut at any byte: the reader of a part finds its lines. CSV with quotes is cut between records; a line feed alone
does not separate them, so the file is read once to find them. Parquet is cut between row groups. Files that can only be
read from their beginning, compressed text above all, stay whole. Small files share a split. Files and row groups that
cannot have a row that is needed are in no split.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq

from planner.relations.connectors.files import PARQUET_FORMAT
from planner.values.ranges import Condition, Range, may_match
from planner.values.splits import NOTHING, FilePart
from site_agent.base.errors import ConnectorError
from site_agent.connectors.files.directories import Values, partition_ranges
from site_agent.connectors.files.footers import group_ranges
from site_agent.connectors.files.listing import FoundFile
from site_agent.connectors.sources import MAX_SPLITS, Split
from site_agent.engine import Field
from site_agent.engine.scans.csv_records import Dialect, record_starts
from site_agent.engine.scans.row_groups import RowGroup, can_be_rewritten, row_groups

COMPRESSED_ENDS = (".gz", ".bz2", ".deflate", ".snappy", ".lz4", ".zst")
"""Names of files that Spark decompresses."""

MAX_PARTITIONS = 32
"""Of one split: Spark reads the files of each on their own, and plans that."""


_Part = tuple[FilePart, int | None]
"""With its rows, where they are known."""


@dataclass(frozen=True, slots=True)
class Needed:
    """Which rows are needed, and what tells where they can be."""

    condition: Condition | None = None
    """None: all are."""
    columns: tuple[Field, ...] = ()
    """Of the table."""
    partitioned_by: tuple[Field, ...] = ()
    partitions: Mapping[str, Values] = field(default_factory=dict)
    """The values of `partitioned_by`, by file."""

    def of_file(self, path: str, more: Mapping[str, Range] | None = None) -> bool:
        """Whether a file, or a part of it of which `more` is known, may have a row that is needed."""
        if self.condition is None:
            return True
        known = partition_ranges(self.partitions[path], self.partitioned_by) if self.partitioned_by else {}
        types = {column.name: column.type for column in self.columns}
        return may_match(self.condition, {**(more or {}), **known}, types)


def splits_of(
    files: Sequence[FoundFile],
    file_format: str,
    split_bytes: int,
    dialect: Dialect | None = None,
    needed: Needed | None = None,
) -> Sequence[Split]:
    """Splits of about `split_bytes`, in the order of the files. CSV is cut between records of the `dialect`.

    Raises:
        ConnectorError: a file cannot be read, or `split_bytes` is less than 1.
    """
    if split_bytes < 1:
        raise ConnectorError(f"splits of {split_bytes} bytes were asked for", hint="a split has at least 1 byte")
    needed = needed or Needed()
    split_bytes = max(split_bytes, sum(found.size_bytes for found in files) // MAX_SPLITS)

    def cut(found: FoundFile) -> Iterator[_Part]:
        if not needed.of_file(found.path):
            return iter(())
        if file_format == PARQUET_FORMAT:
            return _parquet_parts(found, split_bytes, needed)
        return _text_parts(found, split_bytes, dialect)

    splits = tuple(_packed((part for found in files for part in cut(found)), split_bytes, needed.partitions.get))
    left_out_bytes = sum(found.size_bytes for found in files) - sum(split.size_bytes for split in splits)
    if needed.condition is None or not left_out_bytes:
        return splits
    first, *rest = splits or (Split((NOTHING,), rows=0),)
    return (replace(first, left_out_bytes=left_out_bytes), *rest)


def _text_parts(found: FoundFile, split_bytes: int, dialect: Dialect | None) -> Iterator[_Part]:
    size_bytes = found.size_bytes
    whole = found.path.lower().endswith(COMPRESSED_ENDS)
    count = 1 if whole else max(1, round(size_bytes / split_bytes))
    cuts = tuple(size_bytes * number // count for number in range(1, count))
    if dialect is not None and cuts:
        cuts = _record_starts(found, dialect, cuts)
    for first, end in pairwise((0, *cuts, size_bytes)):
        if first < end:
            yield FilePart(found.path, first, end - first), None


# Many queries read the same table: the places are kept as long as the file is the same.
@lru_cache(maxsize=1024)
def _record_starts(found: FoundFile, dialect: Dialect, wanted: tuple[int, ...]) -> tuple[int, ...]:
    try:
        return tuple(record_starts(found.path, dialect, wanted))
    except OSError as error:
        raise ConnectorError(f"{found.path} cannot be read: {error.strerror}") from error


def _parquet_parts(found: FoundFile, split_bytes: int, needed: Needed) -> Iterator[_Part]:
    try:
        with pq.ParquetFile(found.path) as file:
            metadata = file.metadata
    except (pa.ArrowException, OSError) as error:
        raise ConnectorError(f"{found.path} cannot be read as Parquet: {error}") from error
    numbered = sorted(enumerate(row_groups(metadata)), key=lambda item: item[1].offset)
    groups = [group for _, group in numbered]
    wanted = [needed.of_file(found.path, group_ranges(metadata, number, needed.columns)) for number, _ in numbered]
    if groups and not any(wanted):
        return
    if not can_be_rewritten(metadata):
        yield FilePart(found.path, 0, found.size_bytes), metadata.num_rows
    elif not all(wanted) and _are_apart(groups):
        yield from ((_around(found, run), _rows(run)) for run in _runs(groups, wanted, split_bytes))
    elif metadata.num_rows:
        runs = _runs(groups, [True] * len(groups), split_bytes)
        cuts = [0, *(first.offset for first, *_ in runs[1:]), found.size_bytes]
        parts = (FilePart(found.path, first, end - first) for first, end in pairwise(cuts))
        yield from zip(parts, map(_rows, runs), strict=True)


def _are_apart(groups: Sequence[RowGroup]) -> bool:
    """Whether no row group begins before the one before has ended, so that a part can have some without the others."""
    return all(first.offset + first.size_bytes <= second.offset for first, second in pairwise(groups))


def _runs(groups: Sequence[RowGroup], wanted: Sequence[bool], split_bytes: int) -> list[list[RowGroup]]:
    """The wanted row groups, together those that follow one another: as few runs as splits take, of about one size."""
    total_bytes = sum(group.size_bytes for group, is_wanted in zip(groups, wanted, strict=True) if is_wanted)
    each_bytes = total_bytes / max(1, math.ceil(total_bytes / split_bytes))
    runs: list[list[RowGroup]] = []
    before_bytes, last = 0, None
    for group, is_wanted in zip(groups, wanted, strict=True):
        if not is_wanted:
            last = None
            continue
        number = int((before_bytes + group.size_bytes / 2) / each_bytes) if each_bytes else 0
        if number != last:
            runs.append([])
        runs[-1].append(group)
        before_bytes, last = before_bytes + group.size_bytes, number
    return runs


def _around(found: FoundFile, run: Sequence[RowGroup]) -> FilePart:
    end = run[-1].offset + run[-1].size_bytes
    return FilePart(found.path, run[0].offset, end - run[0].offset)


def _rows(run: Sequence[RowGroup]) -> int:
    return sum(group.rows for group in run)


def _packed(parts: Iterable[_Part], split_bytes: int, partition_of: Callable[[str], Values | None]) -> Iterator[Split]:
    taken: list[_Part] = []
    size_bytes, partitions = 0, set[Values | None]()
    for part, rows in parts:
        values = partition_of(part.path)
        full = len(partitions) == MAX_PARTITIONS and values not in partitions
        if taken and (full or size_bytes + part.length > split_bytes):
            yield _split(taken, size_bytes)
            taken, size_bytes, partitions = [], 0, set()
        taken.append((part, rows))
        size_bytes += part.length
        partitions.add(values)
    if taken:
        yield _split(taken, size_bytes)


def _split(taken: Sequence[_Part], size_bytes: int) -> Split:
    known = [rows for _, rows in taken if rows is not None]
    return Split(tuple(part for part, _ in taken), size_bytes, rows=sum(known) if len(known) == len(taken) else None)
