from __future__ import annotations

from datetime import UTC, datetime

from selat.convert import queries, sites
from selat.v1 import query_pb2, site_pb2
from selat.values import END_OF_TIME, QueryState, SiteState, TaskState


def test_every_state_of_the_contract_has_a_value() -> None:
    assert set(queries.QUERY_STATES) == set(query_pb2.QueryState.values()) - {0}
    assert set(sites.TASK_STATES) == set(site_pb2.TaskState.values()) - {0}
    assert set(sites.SITE_STATES) == set(site_pb2.SiteState.values()) - {0}


def test_a_state_of_the_future_is_unknown() -> None:
    query = query_pb2.Query.FromString(b"\x20\x63")  # field 4 (state) = 99
    assert queries.query_info(query).state is QueryState.UNKNOWN
    assert sites.task_status(site_pb2.TaskStatus()).state is TaskState.UNKNOWN
    assert sites.site(site_pb2.Site()).state is SiteState.UNKNOWN


def test_what_is_unset_is_none() -> None:
    info = queries.query_info(query_pb2.Query(id="q"))
    assert (info.started_at, info.ended_at, info.watermark) == (None, None, None)


def test_a_watermark_at_the_epoch_is_a_watermark() -> None:
    assert queries.query_info(query_pb2.Query(watermark_us=0)).watermark == datetime(1970, 1, 1, tzinfo=UTC)


def test_a_watermark_beyond_the_calendar_is_the_end_of_time() -> None:
    assert queries.query_info(query_pb2.Query(watermark_us=2**63 - 1)).watermark == END_OF_TIME


def test_link_bytes_are_summed() -> None:
    message = query_pb2.Query()
    message.links.add(from_site="a", to_site="b", bytes=3)
    message.links.add(from_site="b", to_site="a", bytes=4)
    assert queries.query_info(message).link_bytes == 7
