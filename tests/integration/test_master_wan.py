"""What the master learns of links, and what it plans by it; stand-ins for the agents measure."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest

from selat.v1 import query_pb2, site_pb2, wan_pb2, wan_pb2_grpc
from tests.integration.master_cluster import COUNT, CREATE, FILTER, Cluster, refusal, running_cluster

pytestmark = pytest.mark.timeout(60)

DECLARED = 2_500_000.0


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running_cluster(tmp_path / "master") as cluster:
        yield cluster


async def explained(cluster: Cluster, sql: str) -> tuple[str, dict[str, Any]]:
    (answer,) = await cluster.execute(f"EXPLAIN {sql}")
    return answer.explanation.text, json.loads(answer.explanation.json)


async def plan_of(cluster: Cluster, query: str) -> query_pb2.Explanation:
    request = query_pb2.ExplainQueryRequest(query=query)
    return (await cluster.queries.ExplainQuery(request, wait_for_ready=True)).explanation


async def probe(cluster: Cluster, source: str, target: str, carries: float) -> wan_pb2.LinkView:
    cluster.agents[source].probes.carries[target] = carries
    stub = wan_pb2_grpc.WanServiceStub(cluster.channel)
    return (await stub.ProbeLink(wan_pb2.ProbeLinkRequest(from_site=source, to_site=target))).link


async def link(cluster: Cluster, source: str, target: str) -> wan_pb2.LinkView:
    links = (await wan_pb2_grpc.WanServiceStub(cluster.channel).ListLinks(wan_pb2.ListLinksRequest())).links
    return next(view for view in links if (view.from_site, view.to_site) == (source, target))


def transfer(from_site: str, rate: float, **fields: Any) -> site_pb2.LinkTransfer:
    given = {"bytes": round(rate), "duration_s": 1.0, "age_s": 1.0, "link_bound": True, **fields}
    return site_pb2.LinkTransfer(from_site=from_site, **given)


async def report(cluster: Cluster, site: str, *transfers: site_pb2.LinkTransfer) -> None:
    incarnation = cluster.agents[site].incarnation
    await cluster.sites.Report(site_pb2.ReportRequest(site=site, incarnation=incarnation, transfers=transfers))


def merge_site(plan: dict[str, Any]) -> str:
    (site,) = (candidate["site"] for candidate in plan["candidates"] if candidate["chosen"])
    return str(site)


async def test_plans_are_made_by_what_links_were_measured_to_carry(cluster: Cluster) -> None:
    await cluster.execute(CREATE)
    text, before = await explained(cluster, COUNT)
    assert "% of 2.5 MB/s (topology file)" in text
    assert {figures["origin"] for figures in before["figures"]} == {"topology"}

    target = merge_site(before)
    (narrow,) = (entry for entry in before["links"] if entry["to"] == target)
    await probe(cluster, narrow["from"], target, narrow["bytes_per_s"] / 2)
    cluster.clock.advance(timedelta(seconds=7))
    text, after = await explained(cluster, COUNT)
    assert merge_site(after) != target
    reasons = {candidate["site"]: candidate["reason"] for candidate in after["candidates"]}
    assert reasons[target] == f"the link from {narrow['from']} to {target} is too narrow"
    (measured,) = (figures for figures in after["figures"] if figures["origin"] == "measured")
    assert (measured["from"], measured["to"], measured["age_s"]) == (narrow["from"], target, 7.0)
    assert measured["capacity_bytes_per_s"] == narrow["bytes_per_s"] / 2


async def test_explain_names_the_origin_of_figures(cluster: Cluster) -> None:
    await cluster.execute(CREATE)
    await probe(cluster, "us", "hub", DECLARED / 2)
    cluster.clock.advance(timedelta(seconds=7))
    text, _ = await explained(cluster, FILTER)
    (us,) = (line for line in text.splitlines() if line.startswith("  us -> hub"))
    (eu,) = (line for line in text.splitlines() if line.startswith("  eu -> hub"))
    assert us.endswith("% of 1.25 MB/s (measured 7 s ago, 1.25 MB/s available)")
    assert eu.endswith("% of 2.5 MB/s (topology file)")


async def test_a_stored_plan_keeps_its_figures_whatever_is_measured_later(cluster: Cluster) -> None:
    await cluster.execute(CREATE)
    await probe(cluster, "us", "hub", DECLARED / 2)
    query = await cluster.submit(COUNT)
    before = await plan_of(cluster, query)
    await probe(cluster, "us", "hub", 1.0)
    await probe(cluster, "eu", "hub", 1.0)
    assert await plan_of(cluster, query) == before
    await cluster.stop_master()
    await cluster.start_master()
    assert await plan_of(cluster, query) == before
    assert (await link(cluster, "us", "hub")).method == wan_pb2.PROBE_METHOD_UNSPECIFIED


async def test_own_transfers_measure_links(cluster: Cluster) -> None:
    await report(cluster, "hub", transfer("us", 2e6), transfer("nowhere", 1e9))
    view = await link(cluster, "us", "hub")
    assert (view.capacity_bytes_per_s, view.method, view.age_s) == (2e6, wan_pb2.PROBE_METHOD_PASSIVE, 1.0)
    await report(cluster, "hub", transfer("us", 1e6, age_s=0.0), transfer("us", 1e6, age_s=0.0))
    assert (await link(cluster, "us", "hub")).capacity_bytes_per_s == 2e6
    await report(cluster, "hub", transfer("us", 3e6, age_s=0.0, link_bound=False))
    assert (await link(cluster, "us", "hub")).capacity_bytes_per_s == 3e6


@pytest.mark.parametrize(
    "fields",
    [{"duration_s": 0.0}, {"duration_s": float("nan")}, {"age_s": -1.0}, {"age_s": 1e9}, {"bytes": 2**60}],
)
async def test_a_transfer_that_cannot_be_is_refused(cluster: Cluster, fields: dict[str, Any]) -> None:
    code, detail = await refusal(report(cluster, "hub", transfer("us", 2e6, **fields)))
    assert code is grpc.StatusCode.INVALID_ARGUMENT
    assert "LinkTransfer from us to site hub" in detail.message
    assert (await link(cluster, "us", "hub")).method == wan_pb2.PROBE_METHOD_UNSPECIFIED
