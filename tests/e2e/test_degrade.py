"""A source leaves rows out while nobody takes what it has sent, of a query that allows it, and counts each of them."""

from __future__ import annotations

import pytest

import selat
from tests.e2e.cluster import wait_until
from tests.e2e.faults import Scene
from tests.e2e.proxy import Cut
from tests.e2e.readers import Reader

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.long, pytest.mark.kills, pytest.mark.timeout(600)]

DDL = """
CREATE STREAM shedding (id BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL '1 second')
  WITH ('connector' = 'generator', 'rows_per_second' = '200', 'startup' = 'latest', 'column.id' = 'sequence') AT eu
"""


def test_what_is_missing_was_left_out_and_counted(isolated: Scene, isolated_client: selat.Client) -> None:
    isolated_client.sql(DDL)
    setting = "SET allow_degrade = 'late'; SET degrade_after = '10 seconds'; "
    *_, query = isolated_client.script(setting + "SELECT id FROM shedding")
    assert isinstance(query, selat.Query)
    reader = Reader(isolated.cluster.address, query.id)
    reader.start()
    wait_until(lambda: query.info().rows_out > 0)
    with isolated.links["eu"].severed(Cut.REFUSE):
        wait_until(lambda: query.info().rows_shed > 0)
        (source,) = (task for task in query.info().tasks if task.stage_id == "s1")
        assert source.reason == "leaves out 100% of its rows, for others wait too long"
    wait_until(lambda: not any(task.reason for task in query.info().tasks))
    so_far = query.info().rows_out
    wait_until(lambda: query.info().rows_out > so_far + 1000)
    query.cancel()
    reader.join(timeout=60)
    ids = reader.table.column("id").to_pylist()
    assert len(set(ids)) == len(ids)
    assert max(ids) - min(ids) + 1 - len(ids) == query.info().rows_shed
    assert query.info().rows_late == 0
    isolated_client.drop("shedding")
