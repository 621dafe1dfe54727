from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from planner.graph.plan import PhysicalPlan, Statistics
from planner.place.placement import place
from planner.text.explain import LINKS, SECTIONS, LinkOfPlan, explain_json, explain_text
from planner.text.fields import Field, markdown
from planner.wan.estimate import LinkRecord, fold_bandwidth, fold_use
from planner.wan.samples import BandwidthSample, Method, UseSample
from planner.wan.snapshot import snapshot
from tests.unit.planner.build import draft_of, topology_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SITES = ("hub", "us", "eu", "ap")


def plan_of(sql: str, *, parts: int = 1) -> PhysicalPlan:
    return place(draft_of(sql, parts=parts), topology_of(*SITES), Statistics(), alive=frozenset(SITES))


TOP = plan_of(
    "SELECT p.topic, count(*) AS n FROM clicks c JOIN pages p USING (page) WHERE ms > 5 AND c.site <> 'ap' "
    "GROUP BY window(ts, '10 seconds'), p.topic HAVING n > 1 "
    "QUALIFY row_number() OVER (PARTITION BY window ORDER BY n DESC) <= 3"
)


def test_text_shows_operators_stages_traffic_and_sites() -> None:
    lines = explain_text(TOP).splitlines()
    assert lines[:10] == [
        "Logical plan",
        "  Project[p.topic, count(*) AS n]",
        "    TopK[3 per window by row_number over count(*) DESC]",
        "      Having[count(*) > 1]",
        "        MergeAggregate[window, p.topic]",
        "          PartialAggregate[window of 10 seconds, p.topic]",
        "            Filter[c.ms > 5]",
        "              Join[INNER pages ON c.page = p.page]",
        "                Scan[clicks at eu, us; not ap]",
        "                Scan[pages at us]",
    ]
    assert "  s1: source of clicks at eu, us" in lines
    assert "    reads t1 as t1" in lines
    assert "  m1: merge at eu, results at hub" in lines
    assert "    emits each window of 10 seconds once, when it closes" in lines
    assert "  us -> eu: 100 rows/s, 2.4 kB/s, 0.24 % of 1 MB/s (topology file)" in lines
    assert "  * eu: 2.4 kB/s over the WAN, cost 2.4e-07: fewest bytes over the WAN" in lines


def test_json_says_the_same() -> None:
    data = json.loads(json.dumps(explain_json(TOP)))
    assert data["gateway"] == "hub"
    assert [(s["id"], s["kind"], s["sites"]) for s in data["stages"]] == [
        ("t1", "table", ["us"]),
        ("s1", "source", ["eu", "us"]),
        ("m1", "merge", ["eu"]),
    ]
    assert data["logical"] == list(TOP.logical)
    assert data["stages"][2]["merge"]["window_s"] == 10
    assert [(x["from"], x["to"]) for x in data["links"]] == [("us", "eu"), ("eu", "hub")]
    assert [c["site"] for c in data["candidates"] if c["chosen"]] == ["eu"]
    assert [s["result"] for s in data["stages"]] == [False, False, True]


def test_one_field_of_a_section_is_in_text_json_and_docs(monkeypatch: pytest.MonkeyPatch) -> None:
    field: Field[LinkOfPlan] = Field(
        "row_bytes",
        "Bytes expected of a row.",
        lambda link: link.traffic.bytes_per_s / link.traffic.rows_per_s,
        lambda link: f"{link.traffic.bytes_per_s / link.traffic.rows_per_s:.0f} B a row",
    )
    monkeypatch.setattr(LINKS, "fields", (*LINKS.fields, field))
    assert "  us -> eu: 100 rows/s, 2.4 kB/s, 0.24 % of 1 MB/s (topology file), 24 B a row" in explain_text(TOP)
    assert explain_json(TOP)["links"][0]["row_bytes"] == 24
    assert "| `links[].row_bytes` | Bytes expected of a row. |" in markdown(SECTIONS)


def test_figures_of_links_have_their_origin() -> None:
    topology = topology_of(*SITES)
    record = fold_bandwidth(LinkRecord(), BandwidthSample(NOW - timedelta(seconds=9), Method.IPERF3, 5e5))
    record = fold_use(record, UseSample(NOW, 1e5))
    wan = snapshot(topology, {("us", "hub"): record, ("eu", "ap"): record}, NOW)
    plan = place(
        draft_of("SELECT page FROM clicks WHERE site <> 'ap'"),
        topology,
        Statistics(),
        alive=frozenset(SITES),
        wan=wan,
    )
    text = explain_text(plan)
    assert "  us -> hub: 1 k rows/s, 8 kB/s, 1.6 % of 500 kB/s (measured 9 s ago, 400 kB/s available)" in text
    assert "  eu -> hub: 1 k rows/s, 8 kB/s, 0.8 % of 1 MB/s (topology file)" in text
    eu, us = json.loads(json.dumps(explain_json(plan)))["figures"]
    assert (eu["origin"], eu["age_s"], eu["confidence"], eu["capacity_bytes_per_s"]) == ("topology", None, 0.0, 1e6)
    assert (us["origin"], us["age_s"], us["available_bytes_per_s"]) == ("measured", 9.0, 4e5)
    assert (us["from"], us["to"], us["latency_s"]) == ("us", "hub", 0.01)
    older = snapshot(topology, {("us", "hub"): record}, NOW + timedelta(minutes=7))
    plan = place(
        draft_of("SELECT page FROM clicks WHERE site = 'us'"),
        topology,
        Statistics(),
        alive=frozenset(SITES),
        wan=older,
    )
    assert "measured 7 min ago" in explain_text(plan)


def test_a_plan_of_before_figures_were_kept_is_shown_without() -> None:
    old = replace(TOP, figures=())
    assert "  us -> eu: 100 rows/s, 2.4 kB/s, no link known\n" in explain_text(old)
    assert explain_json(old)["links"][0]["bandwidth_bytes_per_s"] is None


def test_a_query_of_one_stage_sends_its_rows_to_the_gateway() -> None:
    text = explain_text(plan_of("SELECT page FROM clicks WHERE site = 'us'"))
    assert "  s1: source of clicks at us, results at hub" in text
    assert "  us -> hub: 1 k rows/s, 8 kB/s, 0.8 % of 1 MB/s (topology file)" in text
    assert "Sites for the merge" not in text


def test_a_join_of_streams_shows_both_and_the_views_of_the_merge() -> None:
    plan = plan_of(
        "SELECT c.ms FROM clicks c LEFT JOIN visits v ON c.page = v.page "
        "AND window(c.ts, '10 seconds', '5 seconds') = window(v.ts, '10 seconds', '5 seconds') WHERE c.site <> 'ap'"
    )
    lines = explain_text(plan).splitlines()
    assert lines[:5] == [
        "Logical plan",
        "  Project[c.ms]",
        "    WindowJoin[LEFT v in each window of 10 seconds every 5 seconds ON c.page = v.page]",
        "      Scan[clicks at eu, us; not ap]",
        "      Scan[visits at us]",
    ]
    assert "  s2: source of visits at us" in lines
    assert "    reads s2 as t1" in lines
    views = explain_json(plan)["stages"][-1]["merge"]["views"]
    assert [(view["view"], view["required"]) for view in views] == [("input", True), ("t1", False)]


def test_parts_of_a_merge_are_shown_with_their_sites_and_bins() -> None:
    plan = plan_of(
        "SELECT page, count(*) AS n FROM clicks GROUP BY window(ts, '10 seconds'), page "
        "QUALIFY rank() OVER (PARTITION BY window ORDER BY n DESC) <= 3",
        parts=3,
    )
    first, second, third = plan.sites_of(plan.stage("m1"))
    lines = explain_text(plan).splitlines()
    assert f"  m1: merge at {first}, {second}, {third}" in lines
    assert [line for line in lines if line.startswith("    part ")] == [
        f"    part 0 at {first}: bins 0 to 20",
        f"    part 1 at {second}: bins 21 to 41",
        f"    part 2 at {third}: bins 42 to 63",
    ]
    assert f"  f1: final at {first}, results at hub" in lines
    by_id = {stage["id"]: stage for stage in explain_json(plan)["stages"]}
    assert by_id["m1"]["parts"][1] == {"part": 1, "site": second, "first_bin": 21, "bins": 21}
    assert by_id["f1"]["parts"] == by_id["s1"]["parts"] == []
