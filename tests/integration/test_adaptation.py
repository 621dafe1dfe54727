"""What is decided about running queries, over real gRPC: agents report figures, clients ask for decisions."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner, Result

import selat
from contract.tasks import TaskState
from master.records.model import InputStatus, TaskStatus
from planner.adapt.diagnose import Cause
from planner.adapt.situation import Verdict
from planner.graph.ids import TaskId
from planner.sharing.vertices import RESULTS
from planner.values.adapting import Adapting
from selat.cli import cli
from selat.v1 import query_pb2
from tests.integration.master_cluster import CONFIG, COUNT, CREATE, Cluster, eventually, refusal, running_cluster

pytestmark = pytest.mark.timeout(180)

PATIENT = replace(CONFIG, heartbeat_timeout=timedelta(minutes=10))
RATE = 1000


class Reported:
    """Reports of a query of two sources, of which one is at the site of the merge, as time goes on."""

    def __init__(self, cluster: Cluster, query: str) -> None:
        self.cluster, self.query = cluster, query
        self.passed_s = 0
        self.merge_site = cluster.site_of(f"{query}.m1.p0")
        self.missing_rows = 0
        self.state = TaskState.RUNNING

    async def interval(self, *, slow_from: str = "", silent: str = "") -> None:
        """20 s, with reports after 15.

        Args:
            slow_from: a link brings half of what that site gives out.
            silent: that site reports nothing.
        """
        self.cluster.clock.advance(timedelta(seconds=15))
        self.passed_s += 15
        if slow_from:
            self.missing_rows += 20 * RATE // 2
        for site, agent in self.cluster.agents.items():
            if site == silent:
                continue
            given = agent.assignments[-1]
            tasks = [self._status(TaskId.parse(t.task_id), site) for t in given.tasks if t.query_id == self.query]
            inputs = [
                self._input(TaskId.parse(i.channel), TaskId.parse(t.task_id), i.site == slow_from)
                for t in given.tasks
                for i in t.inputs
            ]
            results = [
                self._input(TaskId.parse(i.channel), TaskId(r.query_id, RESULTS), False)
                for r in given.results
                for i in r.inputs
            ]
            await agent.report(tasks=tuple(tasks), inputs=(*inputs, *results))
        looked = self.cluster.master.advisor.looks
        self.cluster.clock.advance(timedelta(seconds=5))
        self.passed_s += 5
        await eventually(lambda: _is(lambda: self.cluster.master.advisor.looks > looked))

    def _status(self, task: TaskId, site: str) -> TaskStatus:
        rows = RATE * self.passed_s * (2 if task.stage == "m1" else 1)
        figures: dict[str, Any] = {"running_s": float(self.passed_s), "useful_s": self.passed_s * 0.1}
        # A window of ten seconds gives ten rows.
        out = self.passed_s if task.stage == "m1" else rows
        return TaskStatus(
            task, task.query, task.stage, site, self.state, next_epoch=self.passed_s, rows_in=rows,
            rows_out=out, bytes_out=out * 100, **figures,
        )  # fmt: skip

    def _input(self, channel: TaskId, reader: TaskId, slow: bool) -> InputStatus:
        behind = self.missing_rows // RATE if slow else 0
        stored = max(0, self.passed_s - behind)
        return InputStatus(reader, channel, stored, stored, 0, RATE * stored)


async def _is(test: Any) -> bool:
    return bool(test())


async def advised(cluster: Cluster, mode: str = "advise") -> str:
    await cluster.execute(CREATE)
    query = (await cluster.execute(f"SET adaptation = '{mode}';\n{COUNT}", "visits"))[-1].query.id
    for site in cluster.agents:
        agent = cluster.agents[site]
        await agent.assigned(lambda a: query in [t.query_id for t in a.tasks] + [r.query_id for r in a.results])
        await cluster.report(site, TaskState.RUNNING)
    assert await cluster.state(query) == "RUNNING"
    return query


def invoke(cluster: Cluster, *words: str) -> Result:
    return CliRunner().invoke(cli, [*words, "--master", cluster.address], catch_exceptions=False)


async def test_a_slow_link_is_named_and_what_would_help(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, PATIENT) as cluster:
        query = await advised(cluster)
        reported = Reported(cluster, query)
        merge, (slow, *_) = reported.merge_site, sorted({"us", "eu"} - {reported.merge_site})
        await reported.interval()
        await reported.interval()
        with await asyncio.to_thread(selat.connect, cluster.address) as client:
            found = await asyncio.to_thread(client.adaptation_decisions, "visits")
            assert [(d.query_id, d.mode, d.verdict) for d in found] == [(query, "advise", "healthy")]
            await reported.interval(slow_from=slow)
            found = await asyncio.to_thread(client.adaptation_decisions)
            last = found[-1]
            assert (last.verdict, last.cause, last.site, last.to_site) == ("act", "link", slow, merge)
            assert "wait before the link" in last.seen
            taken = [option for option in last.considered if not option.against]
            assert len(taken) == 1
            assert taken[0].change.startswith(f"m1 {merge} -> ")
            before = cluster.agents[merge].assignments[-1].version
            await reported.interval()
            assert cluster.agents[merge].assignments[-1].version == before, "advice moves nothing"
            moments = await asyncio.to_thread(client.query_history, "visits")
            assert [m.state for m in moments[:2]] == ["deploying", "running"]
            assert moments[-1].decision is not None
        text = await asyncio.to_thread(invoke, cluster, "adapt", "explain", "visits", "-o", "table")
        assert text.exit_code == 0
        assert f"link, {slow} > {merge}" in text.output
        assert "considered" in text.output
        lines = await asyncio.to_thread(invoke, cluster, "adapt", "explain", "visits", "--json")
        assert [json.loads(line)["verdict"] for line in lines.output.splitlines()].count("act") == 1
        history = await asyncio.to_thread(invoke, cluster, "query", "history", "visits", "--json")
        assert json.loads(history.output.splitlines()[0])["state"] == "deploying"
        analyzed = await cluster.queries.ExplainQuery(query_pb2.ExplainQueryRequest(query=query, analyze=True))
        assert "Adaptation\n  advise: " in analyzed.explanation.text
        assert json.loads(analyzed.explanation.json)["adaptation"]["mode"] == "advise"


async def test_decisions_outlive_the_master(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, PATIENT) as cluster:
        query = await advised(cluster)
        reported = Reported(cluster, query)
        await reported.interval()
        await reported.interval()
        await cluster.stop_master()
        await cluster.start_master(PATIENT)
        assert [e.query for e in cluster.master.advisor.journal.newest("", 10)] == [query]
        with await asyncio.to_thread(selat.connect, cluster.address) as client:
            assert [d.query_id for d in await asyncio.to_thread(client.adaptation_decisions, query)] == [query]


async def test_on_has_the_task_move(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, PATIENT) as cluster:
        query = await advised(cluster, "on")
        reported = Reported(cluster, query)
        slow = sorted({"us", "eu"} - {reported.merge_site})[0]
        for _ in range(2):
            await reported.interval()
        await reported.interval(slow_from=slow)
        found = await asyncio.to_thread(invoke, cluster, "query", "moves", "visits", "--json")
        move = json.loads(found.output)
        assert (move["query_id"], move["stage"], move["from_site"]) == (query, "m1.p0", reported.merge_site)
        assert (move["step"], move["reason"]) == ("registered", "adaptation, for link")
        # It is not decided about what moves.
        await reported.interval(slow_from=slow)
        last = cluster.master.advisor.journal.newest(query, 10)[-1]
        assert (last.mode, last.verdict.value) == (Adapting.ON, "no action")
        assert "in a handover" in last.reason


def newest(cluster: Cluster, query: str) -> tuple[Verdict, str]:
    """The last verdict about a query, and its cause."""
    last = cluster.master.advisor.journal.newest(query, 10)[-1]
    return last.verdict, last.cause


async def test_what_cannot_be_judged_is_left_alone(tmp_path: Path) -> None:
    """A link is slow all the while, and would be blamed."""
    async with running_cluster(tmp_path, PATIENT) as cluster:
        query = await advised(cluster, "on")
        reported = Reported(cluster, query)
        slow = sorted({"us", "eu"} - {reported.merge_site})[0]
        await reported.interval(slow_from=slow)
        reported.state = TaskState.PAUSED
        await reported.interval(slow_from=slow)
        assert newest(cluster, query) == (Verdict.UNJUDGED, Cause.PAUSED.value)
        reported.state = TaskState.RUNNING
        await reported.interval(slow_from=slow)
        assert newest(cluster, query) == (Verdict.UNJUDGED, Cause.RESTARTED.value)
        for _ in range(2):
            await reported.interval(slow_from=slow, silent=slow)
        assert newest(cluster, query) == (Verdict.UNJUDGED, Cause.STALE.value)
        with await asyncio.to_thread(selat.connect, cluster.address) as client:
            assert await asyncio.to_thread(client.moves) == []


async def test_a_master_that_has_just_started_does_nothing_before_it_has_seen_enough(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, PATIENT) as cluster:
        query = await advised(cluster, "on")
        reported = Reported(cluster, query)
        slow = sorted({"us", "eu"} - {reported.merge_site})[0]
        await reported.interval()
        await cluster.stop_master()
        await cluster.start_master(PATIENT)
        await reported.interval(slow_from=slow)
        assert not cluster.master.advisor.journal.newest(query, 10)
        await reported.interval(slow_from=slow)
        assert newest(cluster, query) == (Verdict.UNJUDGED, Cause.RESTARTED.value)
        await reported.interval(slow_from=slow)
        assert newest(cluster, query) == (Verdict.ACT, Cause.LINK.value)


@pytest.mark.parametrize("by", [timedelta(hours=1), timedelta(hours=-1)])
async def test_a_clock_that_is_set_changes_no_rate(tmp_path: Path, by: timedelta) -> None:
    async with running_cluster(tmp_path, PATIENT) as cluster:
        query = await advised(cluster, "on")
        reported = Reported(cluster, query)
        await reported.interval()
        await reported.interval()
        cluster.clock.set_wall(by)
        await reported.interval()
        await reported.interval()
        assert {one.verdict for one in cluster.master.advisor.journal.newest(query, 10)} == {Verdict.HEALTHY}


async def test_off_decides_nothing(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, PATIENT) as cluster:
        query = await advised(cluster, "off")
        reported = Reported(cluster, query)
        for _ in range(3):
            await reported.interval()
        assert not cluster.master.advisor.journal.newest(query, 10)
        status, _ = await refusal(cluster.execute("SET adaptation = 'sometimes'"))
        assert status is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_master_may_advise_all_queries(tmp_path: Path) -> None:
    async with running_cluster(tmp_path, replace(PATIENT, adapting=Adapting.ADVISE)) as cluster:
        await cluster.execute(CREATE)
        query = await cluster.submit(COUNT)
        assert cluster.master.queries.get(query).plan.adapting is Adapting.ADVISE
