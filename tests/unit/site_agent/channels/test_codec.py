from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from site_agent.base.errors import ChannelError, ChannelRequestError, CorruptEpochError
from site_agent.channels.codec import decode, decode_part, encode, group_by_bin
from site_agent.channels.manifest import BinRange, select_bins

EVERY_TYPE = pa.table(
    {
        "long": pa.array([1, None, 3], pa.int64()),
        "text": ["a", None, "ü"],
        "time": pa.array([datetime(2013, 1, 1, tzinfo=UTC), None, None], pa.timestamp("us", "UTC")),
        "price": pa.array([Decimal("1.50"), None, Decimal("2.25")], pa.decimal128(10, 2)),
        "flag": [True, False, None],
        "blob": [b"\x00", None, b""],
        "list": [[1, 2], [], None],
        "struct": [{"x": 1}, None, {"x": None}],
        "nothing": pa.nulls(3),
    }
)


@pytest.mark.parametrize("planes", [True, False])
def test_every_kind_of_column_comes_back(planes: bool) -> None:
    assert decode(encode(EVERY_TYPE, planes=planes)).equals(EVERY_TYPE)


def test_types_without_planes_come_back() -> None:
    table = pa.table({"t": pa.array(["a", None], pa.large_string())})
    assert decode(encode(table)).equals(table)


def test_slices_and_chunks_come_back_as_one() -> None:
    chunks = pa.concat_tables([EVERY_TYPE.slice(1, 2), EVERY_TYPE.slice(0, 1)])
    back = decode(encode(chunks))
    assert back.equals(chunks)
    assert back.column("long").num_chunks == 1


def test_a_slice_costs_only_its_rows() -> None:
    large = pa.table({"n": range(100_000)})
    assert encode(large.slice(50_000, 10)).raw_bytes < 1_000


def test_dictionary_columns_become_plain() -> None:
    table = pa.table({"k": pa.array(["a", "b", "a"]).dictionary_encode()})
    assert decode(encode(table)).to_pydict() == {"k": ["a", "b", "a"]}
    nested = pa.table({"k": pa.array([["a"]]).cast(pa.list_(pa.dictionary(pa.int32(), pa.string())))})
    with pytest.raises(ChannelError, match="nested"):
        encode(nested)


@pytest.mark.parametrize("at", [0, 10, -1])
def test_a_changed_byte_is_noticed(at: int) -> None:
    encoded = encode(EVERY_TYPE)
    payload = bytearray(encoded.payload)
    payload[at] ^= 1
    with pytest.raises(CorruptEpochError, match="checksum"):
        decode(replace(encoded, payload=bytes(payload)))


def test_a_payload_that_is_not_what_is_said_of_it_is_noticed() -> None:
    encoded = encode(EVERY_TYPE)
    with pytest.raises(CorruptEpochError, match="3 rows instead of 4"):
        decode(replace(encoded, rows=4))
    with pytest.raises(CorruptEpochError, match="decoded"):
        decode(replace(encoded, raw_bytes=encoded.raw_bytes - 8))
    with pytest.raises(CorruptEpochError, match="decoded"):
        decode(replace(encoded, schema=b"garbage!"))


binned = st.lists(st.tuples(st.integers(0, 5), st.integers()), min_size=1, max_size=40)


@given(rows=binned, wanted=st.frozensets(st.integers(0, 6), min_size=1), planes=st.booleans())
@settings(max_examples=100, deadline=None)
def test_rows_are_grouped_by_bin_in_their_order_and_can_be_selected(
    rows: list[tuple[int, int]], wanted: frozenset[int], planes: bool
) -> None:
    small = [(b, v % 2**31) for b, v in rows]
    table = pa.table(
        {"v": pa.array([v for _, v in small], pa.int64()), "_bin": pa.array([b for b, _ in small], pa.int16())}
    )
    grouped, ranges = group_by_bin(table)
    assert grouped.column_names == ["v"]
    values = grouped.column("v").to_pylist()
    assert {r.bin: values[r.first_row : r.first_row + r.rows] for r in ranges} == {
        b: [v for bin_, v in small if bin_ == b] for b, _ in small
    }
    chosen = decode_part(encode(grouped, planes=planes), ranges, bins=tuple(wanted)).column("v").to_pylist()
    assert chosen == [v for b, v in sorted(small, key=lambda row: row[0]) if b in wanted]
    renumbered = select_bins(ranges, tuple(wanted))
    assert sum(r.rows for r in renumbered) == len(chosen)
    assert all(chosen[r.first_row : r.first_row + r.rows] == [v for b, v in small if b == r.bin] for r in renumbered)


def test_rows_without_a_bin_are_refused() -> None:
    with pytest.raises(ChannelError, match="1 rows have no bin"):
        group_by_bin(pa.table({"_bin": pa.array([1, None], pa.int32())}))


def test_a_table_without_bins_is_left_alone() -> None:
    assert group_by_bin(EVERY_TYPE) == (EVERY_TYPE, ())
    with pytest.raises(ChannelRequestError, match="not grouped"):
        decode_part(encode(EVERY_TYPE), (), bins=(1,))


def test_columns_come_in_the_order_asked_for() -> None:
    assert decode_part(encode(EVERY_TYPE), (), columns=("text", "long")).column_names == ["text", "long"]
    with pytest.raises(ChannelRequestError, match="no column nope") as caught:
        decode_part(encode(EVERY_TYPE), (), columns=("text", "nope"))
    assert "long, text" in caught.value.hint


def test_missing_bins_give_no_rows() -> None:
    grouped, ranges = group_by_bin(pa.table({"v": [1], "_bin": pa.array([3], pa.int32())}))
    assert ranges == (BinRange(3, 0, 1),)
    assert decode_part(encode(grouped), ranges, bins=(4,)).num_rows == 0
