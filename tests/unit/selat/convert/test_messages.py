from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import selat
from selat.convert import messages as _convert
from selat.v1 import query_pb2, site_pb2
from selat.values import END_OF_TIME, Binding, Column, QueryState, Relation, RelationKind, SiteState, TaskState

_NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
_INSTANTS = st.integers(1, 7 * 10**15).map(_convert.to_datetime)

_RELATIONS = st.builds(
    Relation,
    name=_NAMES,
    kind=st.sampled_from(RelationKind),
    columns=st.lists(st.builds(Column, _NAMES, _NAMES), max_size=3).map(tuple),
    bindings=st.lists(st.builds(Binding, _NAMES, st.dictionaries(_NAMES, _NAMES, max_size=3)), max_size=3).map(tuple),
    event_time=st.none() | _NAMES,
    watermark_delay=st.timedeltas(timedelta(0), timedelta(days=400)),
    comment=_NAMES,
    created_at=st.none() | _INSTANTS,
)


@given(_RELATIONS)
def test_a_relation_survives_the_wire(relation: Relation) -> None:
    assert _convert.relation(_convert.relation_message(relation)) == relation


@given(st.integers(-(10**15), 7 * 10**15))
def test_an_instant_survives_the_wire(us: int) -> None:
    assert _convert.to_us(_convert.to_datetime(us)) == us


def test_every_state_of_the_contract_has_a_value() -> None:
    assert set(_convert.QUERY_STATES) == set(query_pb2.QueryState.values()) - {0}
    assert set(_convert.TASK_STATES) == set(site_pb2.TaskState.values()) - {0}
    assert set(_convert.SITE_STATES) == set(site_pb2.SiteState.values()) - {0}


def test_a_state_of_the_future_is_unknown() -> None:
    query = query_pb2.Query.FromString(b"\x20\x63")  # field 4 (state) = 99
    assert _convert.query_info(query).state is QueryState.UNKNOWN
    assert _convert.task_status(site_pb2.TaskStatus()).state is TaskState.UNKNOWN
    assert _convert.site(site_pb2.Site()).state is SiteState.UNKNOWN


def test_what_is_unset_is_none() -> None:
    info = _convert.query_info(query_pb2.Query(id="q"))
    assert (info.started_at, info.ended_at, info.watermark) == (None, None, None)


def test_a_watermark_at_the_epoch_is_a_watermark() -> None:
    assert _convert.query_info(query_pb2.Query(watermark_us=0)).watermark == datetime(1970, 1, 1, tzinfo=UTC)


def test_a_watermark_beyond_the_calendar_is_the_end_of_time() -> None:
    assert _convert.query_info(query_pb2.Query(watermark_us=2**63 - 1)).watermark == END_OF_TIME


def test_link_bytes_are_summed() -> None:
    message = query_pb2.Query()
    message.links.add(from_site="a", to_site="b", bytes=3)
    message.links.add(from_site="b", to_site="a", bytes=4)
    assert _convert.query_info(message).link_bytes == 7


@pytest.mark.parametrize("sizes", [[], [2], [2, 0, 3]])
def test_a_stream_of_any_number_of_batches_is_one_batch(sizes: list[int]) -> None:
    schema = pa.schema([("x", pa.int64())])
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, schema) as writer:
        for size in sizes:
            writer.write_batch(pa.RecordBatch.from_pydict({"x": list(range(size))}, schema=schema))
    batch = _convert.record_batch(query_pb2.FetchResultsResponse(arrow_stream=bytes(sink.getvalue())))
    assert batch.schema == schema
    assert batch.column("x").to_pylist() == [i for size in sizes for i in range(size)]


@pytest.mark.parametrize("rows", [0, 3])
def test_rows_that_come_compressed_are_a_batch(rows: int) -> None:
    whole = pa.record_batch({"x": pa.array(range(rows), pa.int64())})
    raw = whole.serialize()
    message = query_pb2.FetchResultsResponse(epoch=4, channel="c", schema=whole.schema.serialize().to_pybytes())
    if rows:
        message.payload, message.raw_bytes = pa.compress(raw, codec="zstd", asbytes=True), raw.size
    assert _convert.record_batch(message) == whole


def test_rows_that_are_no_arrow_are_a_fault_that_names_their_epoch() -> None:
    schema = pa.schema({"x": pa.int64()}).serialize().to_pybytes()
    for message in (
        query_pb2.FetchResultsResponse(epoch=4, channel="c", schema=schema, payload=b"junk", raw_bytes=100),
        query_pb2.FetchResultsResponse(epoch=4, channel="c", schema=b"junk", payload=b"junk", raw_bytes=100),
        query_pb2.FetchResultsResponse(epoch=4, channel="c", arrow_stream=b"junk"),
    ):
        with pytest.raises(selat.ServerFault, match="epoch 4 of channel c cannot be decoded"):
            _convert.record_batch(message)
