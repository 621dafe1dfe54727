"""Where the row groups of a Parquet file lie: what a part of such a file is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow.parquet as pq


@dataclass(frozen=True, slots=True)
class RowGroup:
    """Bytes [offset, offset + size_bytes) of the file."""

    offset: int
    size_bytes: int
    rows: int = 0

    @property
    def middle(self) -> int:
        return self.offset + self.size_bytes // 2


def row_groups(metadata: pq.FileMetaData) -> Sequence[RowGroup]:
    """In the order of their numbers."""
    return [_located(metadata.row_group(number)) for number in range(metadata.num_row_groups)]


def can_be_rewritten(metadata: pq.FileMetaData) -> bool:
    """Whether row groups can be copied to another file without a change: Arrow has no INT96."""
    schema = metadata.schema
    return all(schema.column(number).physical_type != "INT96" for number in range(metadata.num_columns))


def _located(group: pq.RowGroupMetaData) -> RowGroup:
    columns = [group.column(number) for number in range(group.num_columns)]
    starts = [c.data_page_offset for c in columns]
    # A file may say 0 for a dictionary that it does not have.
    starts += [c.dictionary_page_offset for c in columns if c.dictionary_page_offset]
    return RowGroup(min(starts, default=0), sum(c.total_compressed_size for c in columns), group.num_rows)
