"""Changes folded to the table that they leave."""

from __future__ import annotations

from datetime import UTC, datetime
from random import Random

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from selat.rows import changes
from selat.rows.changes import Changes

SCHEMA = pa.schema([("k", pa.string()), ("n", pa.int64()), ("_op", pa.string()), ("_at", pa.timestamp("us", tz="UTC"))])
Change = tuple[str | None, int, str, int]


def batch_of(rows: list[Change], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    names = schema.names
    return pa.RecordBatch.from_pylist(
        [dict(zip(names, (*row[:3], datetime.fromtimestamp(row[3], UTC)), strict=True)) for row in rows], schema
    )


def test_of_each_key_the_newest_change_holds() -> None:
    found = Changes(["k"], SCHEMA)
    found.add(batch_of([("a", 1, "upsert", 10), (None, 1, "upsert", 10), ("b", 1, "upsert", 10)]))
    found.add(batch_of([("a", 2, "upsert", 20), ("b", 0, "delete", 20), (None, 4, "upsert", 20)]))
    assert found.table().to_pylist() == [{"k": "a", "n": 2}, {"k": None, "n": 4}]
    assert found.table().schema.names == ["k", "n"]


def test_a_deletion_that_comes_before_what_it_deletes_holds() -> None:
    found = Changes(["k"], SCHEMA)
    found.add(batch_of([("a", 0, "delete", 20)]))
    assert found.table().num_rows == 0
    found.add(batch_of([("a", 7, "upsert", 10)]))
    assert found.table().num_rows == 0


def test_without_keys_there_is_one_row() -> None:
    found = Changes([], SCHEMA)
    assert found.table().num_rows == 0
    found.add(batch_of([("x", 1, "upsert", 10), ("y", 2, "upsert", 20)]))
    assert found.table().to_pylist() == [{"k": "y", "n": 2}]


def test_keys_may_be_structures() -> None:
    schema = SCHEMA.set(0, pa.field("k", pa.struct([("start", pa.int64())])))
    found = Changes(["k"], schema)
    rows = [
        {"k": {"start": k}, "n": n, "_op": "upsert", "_at": datetime.fromtimestamp(n, UTC)}
        for k, n in ((1, 1), (2, 2), (1, 3))
    ]
    found.add(pa.RecordBatch.from_pylist(rows, schema))
    assert found.table().to_pylist() == [{"k": {"start": 2}, "n": 2}, {"k": {"start": 1}, "n": 3}]


@given(
    st.lists(
        st.tuples(st.sampled_from(["a", "b", None]), st.integers(0, 9), st.sampled_from(["upsert", "delete"])),
        max_size=30,
    ),
    st.integers(0, 5),
    st.randoms(use_true_random=False),
)
def test_order_and_repetition_do_not_matter(
    rows: list[tuple[str | None, int, str]], every: int, random: Random
) -> None:
    ordered: list[Change] = [(*row, at) for at, row in enumerate(rows)]
    wanted = {key: (n, op) for key, n, op, _ in ordered}
    mixed = ordered + ordered[::2]
    random.shuffle(mixed)
    found = Changes(["k"], SCHEMA)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(changes, "FOLD_ROWS", every)
        for row in mixed:
            found.add(batch_of([row]))
        table = found.table().to_pylist()
    assert {row["k"]: row["n"] for row in table} == {key: n for key, (n, op) in wanted.items() if op == "upsert"}
    assert len(table) == sum(op == "upsert" for _, op in wanted.values())
