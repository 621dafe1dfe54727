"""A batch query as people see it."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import selat
from selat.cli.commands.query import query_view
from selat.cli.output.listing import as_text
from selat.cli.output.progress import describe

AT = datetime(2026, 1, 1, tzinfo=UTC)


def info(batch: selat.BatchProgress | None) -> selat.QueryInfo:
    return selat.QueryInfo(
        id="q-0001-aa",
        name="",
        sql="SELECT 1",
        state=selat.QueryState.RUNNING,
        reason="",
        submitted_at=AT,
        started_at=AT,
        ended_at=None,
        columns=(),
        gateway="us",
        tasks=(),
        links=(selat.LinkUse("eu", "us", 1500, 1, 0.0),),
        rows_in=0,
        rows_out=0,
        rows_late=0,
        rows_malformed=0,
        watermark=None,
        batch=batch,
    )


def test_a_batch_query_has_a_bar() -> None:
    batch = selat.BatchProgress(
        tasks=4, waiting=1, running=2, done=1, local=2, size_bytes=4000, done_bytes=1000, scheduler="lease-aware"
    )
    assert describe(info(batch)) == (
        "q-0001-aa [#####...............] 1/4 tasks, 2 running | 1.0 kB of 4.0 kB | 67% local | links 1.5 kB"
    )


def test_it_says_what_it_waits_for_and_until_when() -> None:
    wait = selat.BatchWait("q-0001-aa/0", "us/0", AT, "us/0 is nightly's")
    batch = selat.BatchProgress(
        tasks=2, waiting=2, running=0, done=0, local=0, size_bytes=0, done_bytes=0, scheduler="random", waits=(wait,)
    )
    assert describe(info(batch)).endswith("| waits: us/0 is nightly's; expected 2026-01-01 00:00:00")


def test_a_query_over_streams_has_its_watermark() -> None:
    assert "watermark" in describe(info(None))


def test_show_has_tasks_local_share_and_waits() -> None:
    wait = selat.BatchWait("q-0001-aa/3", "us/0", AT, "us/0 is nightly's")
    batch = selat.BatchProgress(
        tasks=5, waiting=2, running=1, done=2, local=2, size_bytes=4000, done_bytes=1600, scheduler="lease-aware",
        waits=(wait,),
    )  # fmt: skip
    lines = as_text(query_view(info(batch), now=AT)).splitlines()
    at = lines.index("batch")
    assert lines[at + 1 : at + 6] == [
        "tasks      5: 2 done, 1 running, 2 waiting",
        "splits     1.6 kB of 4.0 kB done",
        "local      2 of 3 (67%)",
        "scheduler  lease-aware",
        "waits      q-0001-aa/3: us/0 is nightly's; expected 2026-01-01 00:00:00",
    ]


def test_show_has_what_each_stage_did() -> None:
    batch = selat.BatchProgress(
        tasks=3, waiting=0, running=1, done=2, local=2, size_bytes=0, done_bytes=0, scheduler="lease-aware"
    )
    running, ended = selat.TaskState.RUNNING, selat.TaskState.ENDED
    tasks = (
        selat.TaskStatus("q.map.p0", "q", "map", "us", ended, "", None, rows_in=10, rows_out=4, bytes_out=2000),
        selat.TaskStatus("q.map.p1", "q", "map", "eu", ended, "", None, rows_in=20, rows_out=5, bytes_out=1000),
        selat.TaskStatus("q.reduce.p0", "q", "reduce", "us", running, "", None),
    )
    found = replace(info(batch), tasks=tasks)
    assert found.stages[0] == selat.StageProgress("map", 2, 2, 30, 9, 3000)
    lines = as_text(query_view(found, now=AT)).splitlines()
    at = lines.index("stages")
    assert [line.split() for line in lines[at + 2 : at + 4]] == [
        ["map", "2", "2", "30", "9", "3.0", "kB"],
        ["reduce", "1", "0", "0", "0", "0", "B"],
    ]
