"""Queries that share operators, on a real master with stand-ins for the agents."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import grpc
import pytest

from master.model import ChannelUse, ResultStatus, TaskState, TaskStatus
from selat.v1 import query_pb2, site_pb2
from tests.integration.master_cluster import COUNT, CREATE, FILTER, NAMES, Cluster, eventually, refusal, running_cluster

pytestmark = pytest.mark.timeout(60)

SANA = "SET sharing = 'sana';"
HAVING = f"{COUNT} HAVING count(*) > 3"


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running_cluster(tmp_path / "master") as cluster:
        await cluster.execute(CREATE)
        yield cluster


async def tasks(cluster: Cluster) -> dict[str, site_pb2.TaskSpec]:
    """All tasks that are assigned, once every agent has the newest assignment."""
    found: dict[str, site_pb2.TaskSpec] = {}
    for site in NAMES:
        agent = cluster.agents[site]
        await agent.assigned(partial(_has_version, cluster.master.jobs._parts.board.version(site)))
        found |= {task.task_id: task for task in agent.assignments[-1].tasks}
    return found


def _has_version(version: int, assignment: site_pb2.Assignment) -> bool:
    return assignment.version == version


async def report_all(cluster: Cluster, state: TaskState = TaskState.RUNNING) -> None:
    await tasks(cluster)
    for site in NAMES:
        await cluster.report(site, state)


def channels(task: site_pb2.TaskSpec) -> set[str]:
    return {item.channel for item in task.inputs}


async def merge_of(cluster: Cluster, query: str) -> site_pb2.TaskSpec:
    (name,) = [name for name in await tasks(cluster) if name.startswith(f"{query}.m1.")]
    return (await tasks(cluster))[name]


async def test_two_queries_share_their_sources(cluster: Cluster) -> None:
    first = await cluster.submit(SANA + COUNT)
    await report_all(cluster)
    second = await cluster.submit(SANA + HAVING)
    running = await tasks(cluster)
    assert {name for name in running if name.startswith(second)} == {(await merge_of(cluster, second)).task_id}
    merge = await merge_of(cluster, second)
    assert channels(merge) == {f"{first}.s1.us", f"{first}.s1.eu"}
    assert {item.join for item in merge.inputs} == {site_pb2.CHANNEL_JOIN_WHOLE}
    # Beside the one that receives the same: one site reads both sources, for both merges.
    (site,) = {name.rpartition(".")[2] for name in running if name.split(".")[1] == "m1"}
    assert {tuple(running[f"{first}.s1.{source}"].consumers) for source in ("us", "eu")} == {(site,)}
    await report_all(cluster)
    assert await cluster.state(second) == "RUNNING"


async def test_the_same_query_again_runs_no_task(cluster: Cluster) -> None:
    first = await cluster.submit(SANA + FILTER)
    before = await tasks(cluster)
    second = await cluster.submit(SANA + FILTER)
    assert await tasks(cluster) == before
    hub = cluster.agents["hub"]
    results = {spec.query_id: spec for spec in hub.assignments[-1].results}
    assert [i.channel for i in results[second].inputs] == [i.channel for i in results[first].inputs]
    for site in NAMES:
        await cluster.report(site, TaskState.RUNNING, rows_in=7)
    found = await cluster.get(second)
    assert (found.state, found.rows_in) == (query_pb2.QUERY_STATE_RUNNING, 14)
    assert {task.query_id for task in found.tasks} == {first}


async def test_the_owner_may_be_cancelled_first(cluster: Cluster) -> None:
    first = await cluster.submit(SANA + COUNT)
    await report_all(cluster)
    second = await cluster.submit(SANA + HAVING)
    await report_all(cluster)
    sources = {f"{first}.s1.us", f"{first}.s1.eu"}
    await cluster.execute(f"CANCEL QUERY `{first}`")
    left = await tasks(cluster)
    assert left.keys() == sources | {(await merge_of(cluster, second)).task_id}
    await report_all(cluster)

    async def cancelled() -> bool:
        return await cluster.state(first) == "CANCELLED"

    await eventually(cancelled)
    await cluster.stop_master()
    await cluster.start_master()
    assert (await cluster.get(second)).state == query_pb2.QUERY_STATE_RUNNING
    assert (await tasks(cluster)).keys() == left.keys()
    third = await cluster.submit(SANA + HAVING)
    assert (await tasks(cluster)).keys() == left.keys()
    await cluster.execute(f"CANCEL QUERY `{second}`")
    assert (await tasks(cluster)).keys() == left.keys()
    await cluster.execute(f"CANCEL QUERY `{third}`")
    assert not await tasks(cluster)


async def test_the_sharer_may_be_cancelled_first(cluster: Cluster) -> None:
    first = await cluster.submit(SANA + COUNT)
    before = await tasks(cluster)
    second = await cluster.submit(SANA + HAVING)
    await cluster.execute(f"CANCEL QUERY `{second}`")
    assert await tasks(cluster) == before
    await report_all(cluster)
    assert await cluster.state(first) == "RUNNING"


async def test_a_query_that_fails_leaves_the_others(cluster: Cluster) -> None:
    first = await cluster.submit(SANA + COUNT)
    await report_all(cluster)
    second = await cluster.submit(SANA + HAVING)
    await report_all(cluster)
    merge = (await merge_of(cluster, first)).task_id
    site = merge.rpartition(".")[2]
    await cluster.agents[site].report(TaskStatus(merge, first, "m1", site, TaskState.FAILED, reason="disk full"))
    assert await cluster.state(first) == "FAILED"
    left = await tasks(cluster)
    assert merge not in left
    assert f"{first}.s1.us" in left
    await report_all(cluster)
    assert await cluster.state(second) == "RUNNING"


async def test_an_operator_without_its_first_rows_is_not_shared(cluster: Cluster) -> None:
    first = await cluster.submit(SANA + COUNT)
    await report_all(cluster)
    second = await cluster.submit(SANA + HAVING)
    merge = await merge_of(cluster, second)
    site = merge.task_id.rpartition(".")[2]
    late = TaskStatus(merge.task_id, second, "m1", site, TaskState.RUNNING, late_inputs=(f"{first}.s1.us",))
    await cluster.agents[site].report(late)
    assert channels(await merge_of(cluster, second)) == {f"{second}.s1.us", f"{first}.s1.eu"}
    assert f"{second}.s1.us" in await tasks(cluster)
    request = query_pb2.ExplainQueryRequest(query=second)
    text = (await cluster.queries.ExplainQuery(request)).explanation.text
    assert f"s1@us at us: not shared with {first}/s1@us, its first rows are gone" in text
    # It stays so when it is said again, and over a restart.
    await cluster.agents[site].report(late)
    before = await tasks(cluster)
    await cluster.stop_master()
    await cluster.start_master()
    assert await tasks(cluster) == before


async def test_a_merge_that_others_need_is_put_right_when_its_query_is_over(cluster: Cluster) -> None:
    first = await cluster.submit(SANA + COUNT)
    await report_all(cluster)
    second = await cluster.submit(SANA + HAVING)
    third = await cluster.submit(SANA + HAVING)
    await cluster.execute(f"CANCEL QUERY `{second}`")
    merge = await merge_of(cluster, second)
    site = merge.task_id.rpartition(".")[2]
    late = TaskStatus(merge.task_id, second, "m1", site, TaskState.RUNNING, late_inputs=(f"{first}.s1.us",))
    await report_all(cluster)
    await cluster.agents[site].report(late)
    assert channels(await merge_of(cluster, second)) == {f"{second}.s1.us", f"{first}.s1.eu"}
    await report_all(cluster)
    assert await cluster.state(third) == "RUNNING"


async def test_sharing_says_who_shares_and_what_that_saves(cluster: Cluster) -> None:
    first = await cluster.submit(SANA + COUNT)
    await report_all(cluster)
    second = await cluster.submit(SANA + HAVING)
    await report_all(cluster)
    channel = f"{first}.s1.eu"
    reader = (await merge_of(cluster, second)).task_id.rpartition(".")[2]
    to = reader if reader != "eu" else "us"
    if reader == "eu":
        channel = f"{first}.s1.us"
        to = "eu"
    await cluster.agents[to].report(channels=(ChannelUse(channel, first, channel.rpartition(".")[2], 1000, 3, 2),))
    (said,) = [
        o for o in (await cluster.queries.ListSharing(query_pb2.ListSharingRequest())).operators if o.task_id == channel
    ]
    assert (list(said.queries), said.kind) == ([first, second], "source")
    assert [(link.to_site, link.bytes, link.bytes_saved) for link in said.links] == [(to, 1000, 1000)]
    assert (await cluster.get(first)).sharing.bytes_saved == 0
    found = await cluster.get(second)
    assert (found.sharing.mode, found.sharing.bytes_saved) == ("sana", 1000)
    assert [link.bytes for link in found.links] == [1000]


async def test_settings_hold_for_the_script_and_are_said(cluster: Cluster) -> None:
    answers = await cluster.execute("SET sharing = max-share; SET SHARING_START = 'next-window'; SHOW SETTINGS")
    assert dict(answers[0].settings) == {"sharing": "max-share"}
    assert answers[0].done == "sharing is max-share"
    rows = {row.values[0]: row.values[1] for row in answers[2].rows.rows}
    assert (rows["sharing"], rows["sharing_start"]) == ("max-share", "next-window")
    (default,) = await cluster.execute("SHOW SETTINGS")
    assert default.rows.rows[0].values[1] == "net"
    request = query_pb2.ExecuteRequest(text="SHOW SETTINGS", settings={"sharing": "sana"})
    (sent,) = [answer async for answer in cluster.queries.Execute(request)]
    assert sent.rows.rows[0].values[1] == "sana"
    for text, found in (("SET sharing = 'all'", "all"), ("SET shares = 'sana'", "shares")):
        code, said = await refusal(cluster.execute(text))
        assert (code, said.line) == (grpc.StatusCode.INVALID_ARGUMENT, 1)
        assert found in said.message


async def test_a_query_that_begins_at_the_next_window_says_where(cluster: Cluster) -> None:
    await cluster.submit(SANA + COUNT)
    await report_all(cluster)
    second = await cluster.submit(SANA + "SET sharing_start = 'next-window';" + HAVING)
    merge = await merge_of(cluster, second)
    assert {(item.join, item.event_delay_us) for item in merge.inputs} == {(site_pb2.CHANNEL_JOIN_LATE, 5_000_000)}
    site = merge.task_id.rpartition(".")[2]
    status = TaskStatus(merge.task_id, second, "m1", site, TaskState.RUNNING, starts_at_us=60_000_000)
    await cluster.agents[site].report(status)
    assert (await cluster.get(second)).sharing.starts_at_us == 60_000_000
    # Its next agent does not know any more.
    await report_all(cluster)
    assert (await cluster.get(second)).sharing.starts_at_us == 60_000_000


async def test_explain_names_the_query_that_it_would_share_with(cluster: Cluster) -> None:
    first = await cluster.submit(SANA + COUNT)
    answers = await cluster.execute(f"{SANA} EXPLAIN {HAVING}")
    text = answers[-1].explanation.text
    assert f"s1@us at us: shared with {first}" in text
    assert "Sharing (sana)" in text


async def test_an_ended_owner_stays_known_while_others_need_it(cluster: Cluster) -> None:
    first = await cluster.submit(SANA + COUNT)
    second = await cluster.submit(SANA + HAVING)
    await report_all(cluster)
    await cluster.execute(f"CANCEL QUERY `{first}`")
    await report_all(cluster)
    jobs = cluster.master.jobs
    cluster.clock.advance(jobs._config.ended_retention * 2)
    await report_all(cluster)
    jobs.tick()
    assert (await cluster.get(first)).state == query_pb2.QUERY_STATE_CANCELLED
    await cluster.execute(f"CANCEL QUERY `{second}`")
    await report_all(cluster)
    jobs.tick()
    code, said = await refusal(cluster.get(first))
    assert (code, said.code) == (grpc.StatusCode.NOT_FOUND, "QUERY_PURGED")


async def test_results_of_all_are_complete_together(cluster: Cluster) -> None:
    first, second = await cluster.submit(SANA + FILTER), await cluster.submit(SANA + FILTER)
    await report_all(cluster)
    await report_all(cluster, TaskState.ENDED)
    done = tuple(ResultStatus(query, rows=3, complete=True) for query in (first, second))
    await cluster.agents["hub"].report(results=done)
    assert [await cluster.state(query) for query in (first, second)] == ["FINISHED", "FINISHED"]
    assert not await tasks(cluster)


TEXTS = (
    COUNT,
    HAVING,
    FILTER,
    "SELECT user_id, page FROM clicks WHERE user_id > 5 AND page <> 'x'",
    COUNT.replace("count(*) AS n", "count(*) AS n, max(user_id) AS most"),
    COUNT.replace("FROM clicks", "FROM clicks WHERE site = 'us'"),
    COUNT.replace("10 seconds", "20 seconds"),
)


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_comes_and_goes_every_channel_has_its_producer(cluster: Cluster, seed: int) -> None:
    rng = random.Random(seed)
    running: list[str] = []
    for _ in range(12):
        step = rng.random()
        if step < 0.5 or not running:
            mode = rng.choice(("sana", "sana", "max-share", "strict", "net"))
            running.append(await cluster.submit(f"SET sharing = '{mode}';" + rng.choice(TEXTS)))
        elif step < 0.75:
            await cluster.execute(f"CANCEL QUERY `{running.pop(rng.randrange(len(running)))}`")
        else:
            await say_late(cluster, rng)
        if rng.random() < 0.5:
            await report_all(cluster)
        check_closed(await tasks(cluster))
    await cluster.stop_master()
    await cluster.start_master()
    check_closed(await tasks(cluster))
    for query in rng.sample(running, len(running)):
        await cluster.execute(f"CANCEL QUERY `{query}`")
        check_closed(await tasks(cluster))
    assert not await tasks(cluster)


async def say_late(cluster: Cluster, rng: random.Random) -> None:
    """A task that reads channels of others finds some of them without their first epochs."""
    found = await tasks(cluster)
    whole = site_pb2.CHANNEL_JOIN_WHOLE
    shared = [
        t for t in found.values() if any(i.join == whole for i in t.inputs) and t.kind == site_pb2.STAGE_KIND_MERGE
    ]
    if not shared:
        return
    task = rng.choice(shared)
    channels = [item.channel for item in task.inputs if item.join == whole]
    late = tuple(rng.sample(channels, rng.randint(1, len(channels))))
    site = task.task_id.rpartition(".")[2]
    status = TaskStatus(task.task_id, task.query_id, task.stage_id, site, TaskState.RUNNING, late_inputs=late)
    await cluster.agents[site].report(status)
    assert not set(late) & {item.channel for item in (await tasks(cluster))[task.task_id].inputs}


def check_closed(found: dict[str, site_pb2.TaskSpec]) -> None:
    """What a task reads is made where it says, and kept for its site."""
    for task in found.values():
        for item in task.inputs:
            assert item.channel.rpartition(".")[2] == item.site
            assert task.task_id.rpartition(".")[2] in found[item.channel].consumers
