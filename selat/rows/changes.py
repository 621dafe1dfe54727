"""Folding of the changes of a query with EMIT EVERY: each key keeps its newest row, unless that was deleted.

The instant of a change says which one of a key is the newest, so changes may come in any order, and more than once.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

OPERATION, AT = "_op", "_at"
DELETE = "delete"
FOLD_ROWS = 100_000
"""Changes are folded when so many have come, or as many as there are keys."""
_PLACE = "_place"


class Changes:
    """The changes so far. Its memory is in proportion to the keys.

    Args:
        upsert_by: the columns that say which row a change is of; none: there is one row.
        schema: of the changes.
    """

    def __init__(self, upsert_by: Sequence[str], schema: pa.Schema) -> None:
        self.schema = schema
        self._keys = list(upsert_by)
        self._folded = schema.empty_table()
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take changes in, with the columns of the schema."""
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        if self._waiting_rows >= max(FOLD_ROWS, self._folded.num_rows):
            self._fold()

    def table(self) -> pa.Table:
        """Return the rows that the changes leave, in the order of their keys, without the columns that tell of
        changes."""
        self._fold()
        kept = self._folded.filter(pc.not_equal(self._folded.column(OPERATION), DELETE))
        order = [(key, "ascending") for key in self._keys if not pa.types.is_nested(kept.schema.field(key).type)]
        kept = kept.take(pc.sort_indices(kept, sort_keys=order)) if order else kept
        return kept.drop_columns([OPERATION, AT])

    def _fold(self) -> None:
        together = pa.concat_tables([self._folded, pa.Table.from_batches(self._waiting, self._folded.schema)])
        self._waiting, self._waiting_rows = [], 0
        together = together.take(pc.sort_indices(together, sort_keys=[(AT, "ascending")]))
        if not self._keys:
            self._folded = together.slice(max(0, together.num_rows - 1))
            return
        keys = pa.table([_comparable(together.column(key)) for key in self._keys], names=self._keys)
        keys = keys.append_column(_PLACE, pa.array(range(together.num_rows), pa.int64()))
        newest = keys.group_by(self._keys).aggregate([(_PLACE, "max")]).column(f"{_PLACE}_max")
        self._folded = together.take(newest.take(pc.sort_indices(newest))).combine_chunks()


def _comparable(key: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return a column that is equal where the key is; nested ones as texts, for which there are no groups else."""
    if not pa.types.is_nested(key.type):
        return key
    return pa.chunked_array([pa.array([repr(value) for value in key.to_pylist()], pa.string())])
