from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

import selat
from benchmarks.sharing import ALONE, FULL, SMALL, SMALL_ALONE, Size, _parts, arguments_of
from benchmarks.sharing_counts import (
    BASE,
    MODES,
    QUERIES,
    SITES,
    UNSHARED,
    WANTED,
    Alone,
    Arrival,
    Count,
    Outcome,
    Transfer,
    alone_findings,
    between,
    bytes_once,
    declarations,
    findings,
    first_delays_s,
    growth_bytes_per_s,
    processed_per_s,
    slope,
    steady,
    taken_in_per_s,
)
from evidence.criteria import Finding
from planner.planning import draft_query
from planner.relations.catalog import Catalog
from planner.sharing.vertices import VertexKind, vertices_of
from planner.sql import CreateRelation, SelectQuery, parse_script

NOW = datetime(2026, 1, 31, tzinfo=UTC)


def task(query: str, stage: str, site: str, bytes_out: int) -> selat.TaskStatus:
    return selat.TaskStatus(
        task_id=f"{query}.{stage}.{site}",
        query_id=query,
        stage_id=stage,
        site=site,
        state=selat.TaskState.RUNNING,
        reason="",
        epochs=0,
        rows_in=0,
        rows_out=0,
        rows_late=0,
        rows_malformed=0,
        bytes_out=bytes_out,
        rows_in_per_s=0,
        rows_out_per_s=0,
        bytes_out_per_s=0,
        busy_ratio=0,
        lag_rows=0,
        state_rows=0,
        state_bytes=0,
        retained_bytes=0,
        in_flight_bytes=0,
        watermark=None,
    )


def info(query: str, *tasks: selat.TaskStatus) -> selat.QueryInfo:
    return selat.QueryInfo(
        id=query,
        name=query,
        sql="",
        state=selat.QueryState.RUNNING,
        reason="",
        submitted_at=NOW,
        started_at=NOW,
        ended_at=None,
        columns=(),
        gateway="us",
        tasks=tasks,
        links=(),
        rows_in=0,
        rows_out=0,
        rows_late=0,
        rows_malformed=0,
        watermark=None,
    )


def sources(query: str, size: int) -> list[selat.TaskStatus]:
    return [task(query, "s1", site, size) for site in SITES]


def outcome(mode: str, *, sent: int = 1000, rows: float = 100.0, received: int = 102) -> Outcome:
    every = len(QUERIES)
    return Outcome(
        mode=mode,
        seconds=10.0,
        links={("eu", "us"): sent},
        taken_in=(rows,) * every,
        processed=(rows,) * every,
        delays_s=((1.0, 2.0),) * every,
        transfer=Transfer(received, 100, 100, settled=True),
        tasks=24,
        shared=0,
        cores=1.5,
        warm_up_s=20.0,
        kept_bytes=1e6,
        kept_growth_bytes_per_s=0.0,
        link_bytes_per_s=25e3,
    )


def alone(*, net_s: float = 4.0, sana_s: float = 5.0, epoch_s: float = 4.0) -> Alone:
    delays = {UNSHARED: net_s, WANTED: sana_s}
    turns = [replace(outcome(mode), delays_s=((delays[mode],),)) for mode in ALONE.modes]
    return Alone(epoch_s, tuple(turns))


def test_sources_of_one_name_and_no_others_have_one_fingerprint() -> None:
    relations = {}
    for statement in parse_script(declarations(100)):
        assert isinstance(statement, CreateRelation)
        relations[statement.relation.name] = statement.relation
    names: dict[str, set[str]] = {}
    texts: dict[str, set[str]] = {}
    for query in QUERIES:
        (statement,) = parse_script(query.sql)
        assert isinstance(statement, SelectQuery)
        draft = draft_query(statement, Catalog(relations))
        for vertex in vertices_of(draft, relations, {}, owner="q", gateway="us"):
            if vertex.kind is VertexKind.SOURCE and vertex.pinned == "eu":
                names.setdefault(vertex.fingerprint, set()).add(query.sources)
            if vertex.kind is VertexKind.MERGE:
                texts.setdefault(vertex.fingerprint, set()).add(query.sql)
    assert sorted(map(sorted, names.values())) == [["moods"], ["topics"], ["users"]]
    assert len(texts) == len({query.sql for query in QUERIES}) == 5
    assert all(len(same) == 1 for same in texts.values())


def test_what_each_operator_wrote_goes_once_to_each_other_site_that_reads_it() -> None:
    alone = info("a", *sources("a", 10), task("a", "m1", "eu", 3))
    # Of three sources two are not at eu, and the merge is not at the gateway.
    assert bytes_once([(QUERIES[0], alone)]) == (2 * 10 + 3, 2 * 10 + 3)


def test_operators_with_the_same_rows_count_once_however_many_wrote_them() -> None:
    first = info("a", *sources("a", 10), task("a", "m1", "us", 3))
    second = info("b", *sources("b", 12), task("b", "m1", "eu", 4))
    # us reads those of eu and asia, eu those of us and asia; of either query's rows the longer ones.
    assert bytes_once([(QUERIES[0], first), (QUERIES[1], second)]) == (4 * 12 + 4, 2 * 10 + 2 * 12 + 4)


def test_a_shared_operator_is_one() -> None:
    shared = sources("a", 10)
    first = info("a", *shared, task("a", "m1", "us", 3))
    second = info("b", *shared, task("b", "m1", "us", 4))
    assert bytes_once([(QUERIES[0], first), (QUERIES[1], second)]) == (20, 20)


def test_a_table_goes_to_the_sites_of_sources() -> None:
    table = task("a", "t1", "us", 7)
    assert bytes_once([(QUERIES[5], info("a", table, *sources("a", 0), task("a", "m1", "us", 0)))]) == (14, 14)


def test_links_that_carried_nothing_are_left_out() -> None:
    before, after = {("eu", "us"): 5, ("us", "eu"): 7}, {("eu", "us"): 9, ("us", "eu"): 7, ("asia", "us"): 2}
    assert between(before, after) == {("asia", "us"): 2, ("eu", "us"): 4}


def count(at_s: float, rows_in: int, watermark_s: float | None) -> Count:
    return Count(at_s, {}, (0, rows_in), (None, watermark_s), 0)


def test_rates_are_those_of_steps_looked_at_every_second() -> None:
    """Epochs of 4 s, in which 400 rows come; results are complete to the end of each, once it is over."""
    counts = [count(at_s, at_s // 4 * 400, 50.0 + at_s // 4 * 4 if at_s >= 4 else None) for at_s in range(44)]
    assert taken_in_per_s(counts, 1) == pytest.approx(100, rel=0.02)
    assert processed_per_s(counts, 1, 300) == pytest.approx(300, rel=0.02)
    assert processed_per_s(counts, 0, 300) == 0


def test_a_line_of_least_squares() -> None:
    assert slope([(1, 1), (2, 3), (3, 5)]) == 2
    assert slope([(0, 0), (1, 1), (2, 0), (3, 1)]) == pytest.approx(0.2)
    assert slope([(1, 1), (1, 5)]) == slope([]) == 0


def looks(kept_bytes: Sequence[int], event_s: float = 1.0) -> list[Count]:
    """Once a second, results moving on by `event_s` a second."""
    return [Count(at, {}, (0,), (at * event_s,), kept) for at, kept in enumerate(kept_bytes)]


def test_the_state_is_steady_when_what_channels_keep_goes_up_and_down_only() -> None:
    waves = [100_000 + 50_000 * (at % 5) for at in range(80)]
    assert growth_bytes_per_s(looks(waves)) == 0
    assert steady(looks(waves), 6000, 500)
    assert steady(looks([0] * 80), 6000, 500)


@pytest.mark.parametrize(("growth", "is_steady"), [(490, True), (510, False), (-510, False), (9_800, False)])
def test_channels_that_fill_or_empty_by_more_than_a_part_of_a_link_are_not_steady(growth: int, is_steady: bool) -> None:
    waves = [3_000_000 + growth * at + 50_000 * (at % 5) for at in range(80)]
    assert growth_bytes_per_s(looks(waves)) == pytest.approx(growth)
    assert steady(looks(waves), 6000, 500) is is_steady
    assert replace(outcome(BASE), kept_growth_bytes_per_s=growth).steady is is_steady


def test_the_state_is_not_steady_while_queries_catch_up() -> None:
    flat = [0] * 20
    assert steady(looks(flat, 0.5), 6000, 500)
    assert not steady(looks(flat, 1.5), 6000, 500)


def test_a_window_is_answered_by_its_first_result_and_counts_if_that_came_in_time() -> None:
    arrivals = [Arrival(3.0, (2.0,)), Arrival(5.5, (2.0, 4.0)), Arrival(9.0, (6.0,))]
    assert first_delays_s(arrivals, 4.0, 8.0) == (1.5,)


def test_sana_is_held_against_no_share_and_the_least() -> None:
    sana = replace(outcome(WANTED, sent=500, rows=140), taken_in=(110.0,) * len(QUERIES))
    found = findings([outcome(BASE), sana])
    assert found == {
        "bytes": Finding(0.5),
        "processed": Finding(1.4),
        "taken_in": Finding(1.1),
        "over_least": Finding(1.02),
    }


def test_without_a_steady_state_there_is_no_verdict() -> None:
    filling = replace(outcome(BASE), kept_growth_bytes_per_s=9800.0)
    found = findings([filling, outcome(WANTED)])
    note = "no-share is not steady: channels grow by +39.2% of a link"
    assert [found[key].note for key in ("bytes", "processed", "taken_in", "over_least")] == [note, note, note, ""]
    assert found["processed"].value == 1.0
    silent = replace(outcome(BASE), processed=(0.0,) * len(QUERIES))
    assert findings([silent, outcome(WANTED)])["processed"] == Finding(None, "nothing came of no-share")
    late = replace(outcome(WANTED), transfer=Transfer(90, 100, 100, settled=False))
    assert findings([outcome(BASE), late])["over_least"].note == "not all bytes had arrived"


def test_one_query_alone_is_held_against_the_mode_that_shares_nothing() -> None:
    assert alone_findings(alone()) == {"alone_bytes": Finding(1.02), "alone_delay": Finding(1.25)}
    silent = Alone(4.0, tuple(replace(turn, delays_s=((),)) for turn in alone().turns))
    assert alone_findings(silent)["alone_delay"] == Finding(None, "no results came")


def test_the_report_has_every_mode_query_and_link() -> None:
    outcomes = [outcome(mode) for mode in MODES]
    text = "\n".join(_parts(arguments_of([]), outcomes, [alone(), alone(sana_s=4.0, epoch_s=3.0)]))
    for mode in MODES:
        assert f"| {mode} | 0.1 |" in text
    assert "| bytes for a row processed | 1.00 | 1.00 |" in text
    for query in QUERIES:
        assert query.kind in text
    assert "eu->us" in text
    assert "sana over net: 1.25 with epochs of 4 s, 1.00 with epochs of 3 s." in text


@pytest.mark.parametrize("size", [ALONE, SMALL_ALONE])
def test_one_query_alone_takes_turns(size: Size) -> None:
    assert set(size.modes) == {UNSHARED, WANTED}
    assert ALONE.modes == ALONE.modes[::-1]


@pytest.mark.parametrize("size", [FULL, SMALL])
def test_both_sizes_have_what_is_compared(size: Size) -> None:
    assert {BASE, WANTED} <= set(size.modes)


def test_a_query_without_results_is_no_success() -> None:
    assert outcome(BASE).delivered
    assert not replace(outcome(BASE), delays_s=((1.0,), ())).delivered
