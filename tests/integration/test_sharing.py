"""Queries that share operators, on a real master with stand-ins for the agents."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import grpc
import pytest

from contract.tasks import TaskState
from master.records.model import ChannelUse, QueryBehind, ResultStatus, TaskStatus
from planner.graph.ids import TaskId
from selat.v1 import query_pb2, site_pb2
from tests.integration.master_cluster import COUNT, CREATE, FILTER, NAMES, Cluster, eventually, refusal, running_cluster
from tests.seeds import random_of

pytestmark = pytest.mark.timeout(60)

SANA = "SET sharing = 'sana';"
HAVING = f"{COUNT} HAVING count(*) > 3"
FIRST = f"{COUNT} HAVING count(*) > 5"
"""Has the same sources, and lacks groups that the others need."""


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
        await agent.assigned(partial(_has_version, cluster.master.board.version(site)))
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
    first = await cluster.submit(SANA + FIRST)
    await report_all(cluster)
    second = await cluster.submit(SANA + HAVING)
    running = await tasks(cluster)
    assert {name for name in running if name.startswith(second)} == {(await merge_of(cluster, second)).task_id}
    merge = await merge_of(cluster, second)
    assert channels(merge) == {f"{first}.s1.p1", f"{first}.s1.p0"}
    assert {item.read_from for item in merge.inputs} == {site_pb2.READ_FROM_FIRST}
    # Beside the one that receives the same: one site reads both sources, for both merges.
    (site,) = {cluster.site_of(name) for name in running if ".m1." in name}
    assert {tuple(running[f"{first}.s1.{source}"].consumers) for source in ("p0", "p1")} == {(site,)}
    await report_all(cluster)
    assert await cluster.state(second) == "RUNNING"


async def derived_of(cluster: Cluster, query: str) -> dict[str, site_pb2.TaskSpec]:
    kind = site_pb2.STAGE_KIND_DERIVE
    return {name: task for name, task in (await tasks(cluster)).items() if task.kind == kind and name.startswith(query)}


async def test_a_query_that_is_part_of_another_is_made_of_its_output(cluster: Cluster) -> None:
    first = await cluster.submit(SANA + COUNT)
    await report_all(cluster)
    before = await tasks(cluster)
    second = await cluster.submit(SANA + HAVING)
    running = await tasks(cluster)
    (task,) = (await derived_of(cluster, second)).values()
    # No more than that, where the gateway has the groups anyhow.
    assert running.keys() - before.keys() == {task.task_id} == {f"{second}.m1.d0"}
    (merge,) = [name for name in before if name.startswith(f"{first}.m1.")]
    assert channels(task) == {merge}
    assert {(item.view, item.read_from) for item in task.inputs} == {("input", site_pb2.READ_FROM_FIRST)}
    assert "WHERE" in task.sql
    results = {spec.query_id: spec for spec in cluster.agents["hub"].assignments[-1].results}
    assert [item.channel for item in results[second].inputs] == [task.task_id]
    for site in NAMES:
        await cluster.report(site, TaskState.RUNNING, rows_in=7)
    found = await cluster.get(second)
    # Rows of the stream, not of what is made of them.
    assert (found.state, found.rows_in) == (query_pb2.QUERY_STATE_RUNNING, 14)
    assert {status.task_id for status in found.tasks} == {task.task_id, *before}
    assert {status.stage_id for status in found.tasks if status.task_id == merge} == {"m1"}
    await cluster.stop_master()
    await cluster.start_master()
    assert await tasks(cluster) == running
    await cluster.execute(f"CANCEL QUERY `{first}`")
    left = await tasks(cluster)
    # Nothing changes but that one query less reads the groups.
    assert [query.query_id for query in running[merge].readers] == [first, second]
    running[merge].ClearField("readers")
    assert left == running
    await cluster.execute(f"CANCEL QUERY `{second}`")
    assert not await tasks(cluster)


async def test_sources_are_made_of_those_of_others(cluster: Cluster) -> None:
    first = await cluster.submit(SANA + COUNT)
    await report_all(cluster)
    second = await cluster.submit(SANA + COUNT.replace("10 seconds", "1 minute"))
    found = await derived_of(cluster, second)
    assert {channel for task in found.values() for channel in channels(task)} == {f"{first}.s1.p1", f"{first}.s1.p0"}
    assert len({cluster.site_of(name) for name in found}) == 1
    assert channels(await merge_of(cluster, second)) == found.keys()
    request = query_pb2.ExplainQueryRequest(query=second)
    text = (await cluster.queries.ExplainQuery(request)).explanation.text
    assert f"made of the output of {first} ({first}.s1.p1): part of what {first}.s1.p1 sends" in text
    assert "longer windows" in text
    middle = "SET sharing_start = 'next-window';"
    third = await cluster.submit(SANA + middle + COUNT.replace("10 seconds", "30 seconds"))
    late = (*(await derived_of(cluster, third)).values(), await merge_of(cluster, third))
    assert {(i.read_from, i.event_delay_us) for task in late for i in task.inputs} == {
        (site_pb2.READ_FROM_OLDEST, 5_000_000)
    }
    # Of what it joined in the middle nothing is left.
    made, merge = f"{third}.s1.d1", late[-1]
    (name,) = [channel for channel in channels(merge) if channel.startswith(made)]
    site = cluster.site_of(merge.task_id)
    status = TaskStatus(
        TaskId.parse(merge.task_id), third, "m1", site, TaskState.RUNNING, missed_inputs=(TaskId.parse(name),)
    )
    await cluster.agents[site].report(status)
    assert f"{third}.s1.p1" in channels(await merge_of(cluster, third))
    assert not [name for name in await derived_of(cluster, third) if name.startswith(made)]


async def test_what_cannot_be_made_of_others_output_is_made_anew(cluster: Cluster) -> None:
    first = await cluster.submit(SANA + COUNT)
    await report_all(cluster)
    second = await cluster.submit(SANA + HAVING)
    ((name, task),) = (await derived_of(cluster, second)).items()
    site = cluster.site_of(name)
    status = TaskStatus(
        TaskId.parse(name),
        second,
        "m1",
        site,
        TaskState.RUNNING,
        missed_inputs=tuple(map(TaskId.parse, channels(task))),
    )
    await cluster.agents[site].report(status)
    assert not await derived_of(cluster, second)
    assert channels(await merge_of(cluster, second)) == {f"{first}.s1.p1", f"{first}.s1.p0"}
    await report_all(cluster)
    found = await cluster.get(second)
    assert {status.task_id for status in found.tasks} == {f"{second}.m1.p0", f"{first}.s1.p1", f"{first}.s1.p0"}


async def test_a_task_that_something_is_made_of_fails_both(cluster: Cluster) -> None:
    first = await cluster.submit(SANA + COUNT)
    await report_all(cluster)
    second = await cluster.submit(SANA + HAVING)
    await report_all(cluster)
    (merge,) = [name for name in await tasks(cluster) if name.startswith(f"{first}.m1.")]
    site = cluster.site_of(merge)
    await cluster.agents[site].report(
        TaskStatus(TaskId.parse(merge), first, "m1", site, TaskState.FAILED, reason="disk full")
    )
    assert [await cluster.state(query) for query in (first, second)] == ["FAILED", "FAILED"]
    assert not await tasks(cluster)


async def test_the_same_query_again_runs_no_task(cluster: Cluster) -> None:
    first = await cluster.submit(SANA + FILTER)
    before = await tasks(cluster)
    second = await cluster.submit(SANA + FILTER)
    assert (await tasks(cluster)).keys() == before.keys()
    hub = cluster.agents["hub"]
    results = {spec.query_id: spec for spec in hub.assignments[-1].results}
    assert [i.channel for i in results[second].inputs] == [i.channel for i in results[first].inputs]
    for site in NAMES:
        await cluster.report(site, TaskState.RUNNING, rows_in=7)
    found = await cluster.get(second)
    assert (found.state, found.rows_in) == (query_pb2.QUERY_STATE_RUNNING, 14)
    assert {task.query_id for task in found.tasks} == {first}


async def test_the_owner_may_be_cancelled_first(cluster: Cluster) -> None:
    first = await cluster.submit(SANA + FIRST)
    await report_all(cluster)
    second = await cluster.submit(SANA + HAVING)
    await report_all(cluster)
    sources = {f"{first}.s1.p1", f"{first}.s1.p0"}
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
    first = await cluster.submit(SANA + FIRST)
    before = await tasks(cluster)
    second = await cluster.submit(SANA + HAVING)
    await cluster.execute(f"CANCEL QUERY `{second}`")
    assert await tasks(cluster) == before
    await report_all(cluster)
    assert await cluster.state(first) == "RUNNING"


async def test_a_query_that_fails_leaves_the_others(cluster: Cluster) -> None:
    first = await cluster.submit(SANA + FIRST)
    await report_all(cluster)
    second = await cluster.submit(SANA + HAVING)
    await report_all(cluster)
    merge = (await merge_of(cluster, first)).task_id
    site = cluster.site_of(merge)
    await cluster.agents[site].report(
        TaskStatus(TaskId.parse(merge), first, "m1", site, TaskState.FAILED, reason="disk full")
    )
    assert await cluster.state(first) == "FAILED"
    left = await tasks(cluster)
    assert merge not in left
    assert f"{first}.s1.p1" in left
    await report_all(cluster)
    assert await cluster.state(second) == "RUNNING"


def paused(found: dict[str, site_pb2.TaskSpec]) -> set[str]:
    return {name for name, task in found.items() if task.paused}


async def test_pausing_the_owner_stops_only_what_nobody_else_needs(cluster: Cluster) -> None:
    first = await cluster.submit(SANA + FIRST, "visits")
    await report_all(cluster)
    second = await cluster.submit(SANA + HAVING)
    await report_all(cluster)
    merge = (await merge_of(cluster, first)).task_id
    (answer,) = await cluster.execute("PAUSE QUERY visits")
    assert answer.done == f"query {first} is paused"
    assert paused(await tasks(cluster)) == {merge}
    await report_all(cluster)
    assert (await cluster.state(first), await cluster.state(second)) == ("PAUSED", "RUNNING")
    # The sources are read by both, wherever the slower one is.
    source = (await tasks(cluster))[f"{first}.s1.p1"]
    assert [query.query_id for query in source.readers] == [first, second]
    await cluster.queries.PauseQuery(query_pb2.PauseQueryRequest(query=second))
    everything = (await tasks(cluster)).keys()
    assert paused(await tasks(cluster)) == everything
    await cluster.stop_master()
    await cluster.start_master()
    assert (await cluster.state(first), await cluster.state(second)) == ("PAUSED", "PAUSED")
    assert paused(await tasks(cluster)) == everything
    # The sources of the first are at work again for the second.
    await cluster.execute(f"RESUME QUERY `{second}`")
    assert paused(await tasks(cluster)) == {merge}
    assert await cluster.state(second) == "RESUMING"
    await report_all(cluster)
    assert await cluster.state(second) == "RUNNING"
    await cluster.execute(f"CANCEL QUERY `{first}`")
    assert (await tasks(cluster)).keys() == everything - {merge}
    code, said = await refusal(cluster.execute(f"RESUME QUERY `{second}`"))
    assert (code, said.code) == (grpc.StatusCode.FAILED_PRECONDITION, "QUERY_NOT_PAUSED")
    code, said = await refusal(cluster.execute(f"PAUSE QUERY `{first}`"))
    assert (code, said.code, dict(said.ids)) == (grpc.StatusCode.FAILED_PRECONDITION, "QUERY_OVER", {"query": first})


async def test_only_the_query_that_is_left_behind_fails(cluster: Cluster) -> None:
    first = await cluster.submit(SANA + FIRST)
    await report_all(cluster)
    second = await cluster.submit(SANA + HAVING)
    await report_all(cluster)
    source = f"{first}.s1.p1"
    site = cluster.site_of((await merge_of(cluster, second)).task_id)
    for left, state in ((False, "RUNNING"), (True, "FAILED")):
        behind = (QueryBehind(second, 10**9, (site,), left),)
        status = TaskStatus(TaskId.parse(source), first, "s1", "us", TaskState.RUNNING, behind=behind)
        await cluster.agents["us"].report(status)
        found = await cluster.get(second)
        assert f"behind by {10**9} bytes of {source}, which wait for it at {site}" in found.reason
        assert (await cluster.state(first), await cluster.state(second)) == ("RUNNING", state)
    assert source in await tasks(cluster)
    assert not [name for name in await tasks(cluster) if name.startswith(second)]


async def test_an_operator_without_its_first_rows_is_not_shared(cluster: Cluster) -> None:
    first = await cluster.submit(SANA + FIRST)
    await report_all(cluster)
    second = await cluster.submit(SANA + HAVING)
    merge = await merge_of(cluster, second)
    site = cluster.site_of(merge.task_id)
    late = TaskStatus(
        TaskId.parse(merge.task_id), second, "m1", site, TaskState.RUNNING, missed_inputs=(TaskId(first, "s1", 1),)
    )
    await cluster.agents[site].report(late)
    assert channels(await merge_of(cluster, second)) == {f"{second}.s1.p1", f"{first}.s1.p0"}
    assert f"{second}.s1.p1" in await tasks(cluster)
    request = query_pb2.ExplainQueryRequest(query=second)
    text = (await cluster.queries.ExplainQuery(request)).explanation.text
    assert f"s1.p1 at us: not shared with {first}.s1.p1, its first rows, which" in text
    # It stays so when it is said again, and over a restart.
    await cluster.agents[site].report(late)
    before = await tasks(cluster)
    await cluster.stop_master()
    await cluster.start_master()
    assert await tasks(cluster) == before


async def test_a_merge_that_others_need_is_put_right_when_its_query_is_over(cluster: Cluster) -> None:
    first = await cluster.submit(SANA + FIRST)
    await report_all(cluster)
    second = await cluster.submit(SANA + HAVING)
    third = await cluster.submit(SANA + HAVING)
    await cluster.execute(f"CANCEL QUERY `{second}`")
    merge = await merge_of(cluster, second)
    site = cluster.site_of(merge.task_id)
    late = TaskStatus(
        TaskId.parse(merge.task_id), second, "m1", site, TaskState.RUNNING, missed_inputs=(TaskId(first, "s1", 1),)
    )
    await report_all(cluster)
    await cluster.agents[site].report(late)
    assert channels(await merge_of(cluster, second)) == {f"{second}.s1.p1", f"{first}.s1.p0"}
    await report_all(cluster)
    assert await cluster.state(third) == "RUNNING"


async def test_sharing_says_who_shares_and_what_that_saves(cluster: Cluster) -> None:
    first = await cluster.submit(SANA + FIRST)
    await report_all(cluster)
    second = await cluster.submit(SANA + HAVING)
    await report_all(cluster)
    channel = f"{first}.s1.p0"
    reader = cluster.site_of((await merge_of(cluster, second)).task_id)
    to = reader if reader != "eu" else "us"
    if reader == "eu":
        channel = f"{first}.s1.p1"
        to = "eu"
    await cluster.agents[to].report(
        channels=(ChannelUse(TaskId.parse(channel), first, cluster.site_of(channel), 1000, 3, 2),)
    )
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
    await cluster.submit(SANA + FIRST)
    await report_all(cluster)
    second = await cluster.submit(SANA + "SET sharing_start = 'next-window';" + HAVING)
    merge = await merge_of(cluster, second)
    assert {(item.read_from, item.event_delay_us) for item in merge.inputs} == {(site_pb2.READ_FROM_OLDEST, 5_000_000)}
    site = cluster.site_of(merge.task_id)
    status = TaskStatus(TaskId.parse(merge.task_id), second, "m1", site, TaskState.RUNNING, starts_at_us=60_000_000)
    await cluster.agents[site].report(status)
    assert (await cluster.get(second)).sharing.starts_at_us == 60_000_000
    # Its next agent does not know any more.
    await report_all(cluster)
    assert (await cluster.get(second)).sharing.starts_at_us == 60_000_000


async def test_results_that_begin_in_the_middle_say_where(cluster: Cluster) -> None:
    await cluster.submit(SANA + FILTER)
    await report_all(cluster)
    second = await cluster.submit(SANA + "SET sharing_start = 'next-window';" + FILTER)
    await tasks(cluster)
    hub = cluster.agents["hub"]
    (spec,) = [spec for spec in hub.assignments[-1].results if spec.query_id == second]
    assert {(item.read_from, item.event_delay_us) for item in spec.inputs} == {(site_pb2.READ_FROM_OLDEST, 5_000_000)}
    await hub.report(results=(ResultStatus(second, 3, starts_at_us=60_000_001),))
    assert (await cluster.get(second)).sharing.starts_at_us == 60_000_001
    # Its next agent has not received the first epoch again yet.
    await hub.report(results=(ResultStatus(second, 3),))
    assert (await cluster.get(second)).sharing.starts_at_us == 60_000_001


async def test_explain_names_the_query_that_it_would_share_with(cluster: Cluster) -> None:
    first = await cluster.submit(SANA + FIRST)
    answers = await cluster.execute(f"{SANA} EXPLAIN {HAVING}")
    text = answers[-1].explanation.text
    assert f"s1.p1 at us: shared with {first}" in text
    assert "Sharing (sana)" in text


async def test_an_ended_owner_stays_known_while_others_need_it(cluster: Cluster) -> None:
    first = await cluster.submit(SANA + FIRST)
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
    COUNT.replace("page, count(*) AS n", "count(*) AS hits, page AS p"),
    "SELECT page AS p FROM clicks WHERE user_id > 8",
)


@pytest.mark.seeded
@pytest.mark.parametrize("seed", range(4))
async def test_whatever_comes_and_goes_every_channel_has_its_producer(cluster: Cluster, seed: int) -> None:
    rng = random_of(seed)
    running: list[str] = []
    for _ in range(12):
        step = rng.random()
        if step < 0.5 or not running:
            mode = rng.choice(("sana", "sana", "max-share", "strict", "net"))
            running.append(await cluster.submit(f"SET sharing = '{mode}';" + rng.choice(TEXTS)))
        elif step < 0.65:
            await cluster.execute(f"CANCEL QUERY `{running.pop(rng.randrange(len(running)))}`")
        elif step < 0.85:
            query = rng.choice(running)
            word = "RESUME" if await cluster.state(query) == "PAUSED" else "PAUSE"
            await cluster.execute(f"{word} QUERY `{query}`")
        else:
            await say_late(cluster, rng)
        if rng.random() < 0.5:
            await report_all(cluster)
        check_closed(cluster, await tasks(cluster))
    await cluster.stop_master()
    await cluster.start_master()
    check_closed(cluster, await tasks(cluster))
    for query in rng.sample(running, len(running)):
        await cluster.execute(f"CANCEL QUERY `{query}`")
        check_closed(cluster, await tasks(cluster))
    assert not await tasks(cluster)


async def say_late(cluster: Cluster, rng: random.Random) -> None:
    """A task that reads channels of others finds some of them without their first epochs."""
    found = await tasks(cluster)
    whole = site_pb2.READ_FROM_FIRST
    kinds = (site_pb2.STAGE_KIND_MERGE, site_pb2.STAGE_KIND_DERIVE)
    shared = [t for t in found.values() if any(i.read_from == whole for i in t.inputs) and t.kind in kinds]
    if not shared:
        return
    task = rng.choice(shared)
    channels = [item.channel for item in task.inputs if item.read_from == whole]
    late = tuple(rng.sample(channels, rng.randint(1, len(channels))))
    site = cluster.site_of(task.task_id)
    status = TaskStatus(
        TaskId.parse(task.task_id),
        task.query_id,
        task.stage_id,
        site,
        TaskState.RUNNING,
        missed_inputs=tuple(map(TaskId.parse, late)),
    )
    await cluster.agents[site].report(status)
    left = (await tasks(cluster)).get(task.task_id)
    # What was made of such a channel is made anew, by another task.
    assert (left is None) == (task.kind == site_pb2.STAGE_KIND_DERIVE)
    assert left is None or not set(late) & {item.channel for item in left.inputs}


def check_closed(cluster: Cluster, found: dict[str, site_pb2.TaskSpec]) -> None:
    """What a task reads is made where it says, and kept for its site; what one at work reads does not stand still."""
    for task in found.values():
        for item in task.inputs:
            assert cluster.site_of(item.channel) == item.site
            producer = found[item.channel]
            assert cluster.site_of(task.task_id) in producer.consumers
            assert task.paused or not producer.paused
            told = {reader.reader for query in producer.readers for reader in query.readers}
            assert not told or task.task_id in told
