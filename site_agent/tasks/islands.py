"""Sessions of rows that each cover an interval: those of one key whose intervals touch are an island.

The union of intervals is the same in whatever order they come, so rows may be taken together anywhere, and again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from site_agent.state.segments import starts_of
from site_agent.tasks.spec import SessionSpec

Instants = npt.NDArray[np.int64]
_MICROSECONDS = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True, slots=True)
class Islands:
    """For each row, in microseconds, where the island begins and ends that it is of."""

    starts: Instants
    ends: Instants


def islands_of(rows: pa.Table, column: str, spec: SessionSpec) -> Islands:
    """Return the islands that rows are of among themselves; `column` has their starts."""
    starts, ends = instants(rows, column), instants(rows, spec.end)
    if not len(starts):
        return Islands(starts, ends)
    keys = numbered([rows.column(key) for key in spec.keys], len(starts))
    order = np.lexsort((starts, keys))
    keys, begun, ended = keys[order], starts[order], ends[order]
    # Keys come in order, so the farthest end of a key so far is the greatest of key and place of the end.
    known, places = np.unique(ended, return_inverse=True)
    farthest = np.maximum.accumulate(keys * len(known) + places) - keys * len(known)
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (keys[1:] != keys[:-1]) | (begun[1:] > known[farthest[:-1]])
    firsts, numbers = np.flatnonzero(begins), np.cumsum(begins) - 1
    found = Islands(np.empty_like(starts), np.empty_like(ends))
    found.starts[order] = begun[firsts][numbers]
    found.ends[order] = np.maximum.reduceat(ended, firsts)[numbers]
    return found


def instants(rows: pa.Table, column: str) -> Instants:
    """Return a column of instants in microseconds."""
    found: Instants = starts_of(rows, column).to_numpy()
    return found


def with_islands(rows: pa.Table, islands: Islands, column: str, spec: SessionSpec) -> pa.Table:
    """Return the rows with the starts and ends of their islands in the place of their own."""
    return with_instants(with_instants(rows, column, islands.starts), spec.end, islands.ends)


def with_instants(rows: pa.Table, name: str, values: Instants) -> pa.Table:
    """Return the rows with these instants, in microseconds, in the place of a column's."""
    place = rows.schema.get_field_index(name)
    field = rows.schema.field(place)
    return rows.set_column(place, field, pa.array(values).cast(_MICROSECONDS).cast(field.type))


def of_keys(rows: pa.Table, some: pa.Table, keys: Sequence[str]) -> npt.NDArray[np.bool_]:
    """Return which rows may have the key of one of `some`: for certain those that have one."""
    key = next((name for name in keys if _has_plain_values(rows, name)), None)
    if key is None:
        return np.full(rows.num_rows, fill_value=some.num_rows > 0)
    values = some.column(key).combine_chunks()
    return np.asarray(pc.is_in(rows.column(key), value_set=values).to_numpy(zero_copy_only=False), np.bool_)


def _has_plain_values(rows: pa.Table, name: str) -> bool:
    kind = rows.schema.field(name).type
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind))


def numbered(keys: Sequence[pa.ChunkedArray], rows: int) -> Instants:
    """Return a number for each row, which is that of another row if all keys are equal; NULL is equal to NULL."""
    numbers = np.zeros(rows, np.int64)
    for key in keys:
        values = _codes(key)
        _, numbers = np.unique(numbers * (int(values.max()) + 1) + values, return_inverse=True)
    return numbers.astype(np.int64)


def _codes(key: pa.ChunkedArray) -> Instants:
    """Return small numbers for the values of a key. Spark has made those equal that it takes for equal."""
    if pa.types.is_nested(key.type):
        _, found = np.unique([repr(value) for value in key.to_pylist()], return_inverse=True)
        return found.astype(np.int64)
    encoded = pc.dictionary_encode(key.combine_chunks(), null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), np.int64)
