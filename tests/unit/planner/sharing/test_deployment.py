"""What a sharing plan comes to for a query, and how operators that are out of reach are taken back."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.graph.ids import TaskId
from planner.sharing.deployment import (
    Deployment,
    Start,
    deployment_json,
    deployment_lines,
    sites_of,
    taken_back,
)
from planner.sharing.modes import Sharing
from planner.sharing.running import Running
from planner.sharing.vertices import VertexKind
from tests.unit.planner.build import draft_of
from tests.unit.planner.sharing.build import CATALOG
from tests.unit.planner.sharing.names import tid, vid
from tests.unit.planner.sharing.world import COUNTS, HAVING, QUERIES, RENAMED, ROWS, SWAPPED, World


def kinds(deployment: Deployment) -> list[VertexKind]:
    return [operator.vertex.kind for operator in deployment.deployed]


def test_the_same_query_again_runs_nothing_but_its_results() -> None:
    world = World()
    world.submit(COUNTS)
    second = world.submit(COUNTS)
    assert kinds(second) == [VertexKind.RESULTS]
    assert second.used == (tid("q-0/m1"),)
    assert set(second.stands) == {vid("s1.p2"), vid("s1.p1"), vid("s1.p0"), vid("m1")}


def test_another_having_shares_the_sources_only() -> None:
    world = World()
    world.submit(COUNTS)
    second = world.submit(HAVING)
    assert kinds(second) == [VertexKind.MERGE, VertexKind.RESULTS]
    assert second.used == (tid("q-0/s1.p0"), tid("q-0/s1.p1"), tid("q-0/s1.p2"))


def test_what_has_other_names_is_not_read_in_its_place() -> None:
    world = World()
    world.submit(COUNTS)
    assert vid("m1") not in world.submit(RENAMED).stands
    world.submit(ROWS)
    # The same columns under each other's names: equal but for that.
    assert not world.submit(SWAPPED).stands


def test_without_sharing_nothing_is_taken_or_given() -> None:
    for mode in (Sharing.NO_SHARE, Sharing.NET):
        world = World()
        world.submit(COUNTS)
        assert not world.submit(COUNTS, mode=mode).used
        world = World()
        world.submit(COUNTS, mode=mode)
        assert not world.submit(COUNTS).used


def test_who_began_in_the_middle_is_not_shared_with() -> None:
    world = World()
    world.submit(COUNTS)
    world.submit(HAVING, start=Start.NEXT_WINDOW)
    assert world.submit(HAVING).used == (tid("q-0/s1.p0"), tid("q-0/s1.p1"), tid("q-0/s1.p2"))


def test_results_are_shared_only_where_a_gateway_keeps_all_of_them() -> None:
    world = World()
    first = world.submit(HAVING)
    results = [operator for operator in first.deployed if operator.vertex.kind is VertexKind.RESULTS]
    world.running.remove("q-0")
    # As when its results go into a sink: nobody keeps what was sent before.
    left = [one for one in first.deployed if one not in results]
    world.running.add("q-0", left, sites_of(first, {}))
    second = world.submit(HAVING)
    assert kinds(second) == [VertexKind.MERGE, VertexKind.RESULTS]
    assert "no gateway keeps all" in second.notes[vid("m1")]


def test_words_name_the_query_for_each_operator() -> None:
    world = World()
    world.submit(COUNTS)
    second = world.submit(HAVING)
    lines = deployment_lines(second)
    assert lines[0].startswith("Sharing (sana): ")
    assert "  s1.p2 at us: shared with q-0 (q-0.s1.p2): the same inputs and function as q-0.s1.p2" in lines
    assert not any("results" in line for line in lines)
    told = {
        operator["operator"]: operator for operator in deployment_json(second, world.running.placement)["operators"]
    }
    assert (told["s1.p2"]["query"], told["s1.p2"]["runs"]) == ("q-0", False)
    assert (told["m1.p0"]["query"], told["m1.p0"]["runs"]) == (None, True)


def test_one_that_is_taken_back_leaves_the_others_shared() -> None:
    world = World()
    world.submit(COUNTS)
    second = taken_back(world.submit(HAVING), "q-1", {tid("q-0/s1.p1")}, why="it is gone")
    assert second.used == (tid("q-0/s1.p0"), tid("q-0/s1.p2"))
    merge = next(operator for operator in second.deployed if operator.vertex.id == vid("m1"))
    assert set(merge.inputs) == {tid("q-1/s1.p1"), tid("q-0/s1.p0"), tid("q-0/s1.p2")}
    assert second.notes[vid("s1.p1")] == "s1.p1 at eu: not shared with q-0.s1.p1, it is gone"
    assert taken_back(second, "q-1", {tid("q-0/s1.p1")}, why="") == second


def test_what_is_shared_counts_with_what_it_really_reads() -> None:
    world = World()
    world.submit(COUNTS)
    second = taken_back(world.submit(HAVING), "q-1", {tid("q-0/s1.p1")}, why="it is gone")
    world.running.remove("q-1")
    world.running.add("q-1", second.deployed, sites_of(second, {}), second.used)
    third = world.submit(HAVING)
    assert third.used == (tid("q-1/m1"),)
    assert third.stands == {
        vid("s1.p2"): tid("q-0/s1.p2"),
        vid("s1.p1"): tid("q-1/s1.p1"),
        vid("s1.p0"): tid("q-0/s1.p0"),
        vid("m1"): tid("q-1/m1"),
    }


@given(
    before=st.lists(st.sampled_from(QUERIES), max_size=4),
    sql=st.sampled_from(QUERIES),
    described=st.booleans(),
    data=st.data(),
)
def test_whatever_is_taken_back_all_inputs_are_there(
    before: Sequence[str], sql: str, described: bool, data: st.DataObject
) -> None:
    world = World()
    for number, earlier in enumerate(before):
        world.submit(earlier)
        if described:
            world.describe(*before[: number + 1])
    query = f"q-{len(before)}"
    deployment = world.plan(query, sql, Sharing.SANA, Start.HISTORY)
    while deployment.used:
        check(deployment, query, world.running)
        late = data.draw(st.sets(st.sampled_from(deployment.used), min_size=1))
        deployment = taken_back(deployment, query, late, why="it is gone")
        assert not late & set(deployment.used)
    check(deployment, query, world.running)
    alone = World().plan(query, sql, Sharing.SANA, Start.HISTORY)
    assert {o.id: set(o.inputs) for o in deployment.deployed} == {o.id: set(o.inputs) for o in alone.deployed}


def check(deployment: Deployment, query: str, running: Running) -> None:
    """Each operator reads one supplier for each of its vertex's inputs, which runs or comes before it."""
    seen: set[TaskId] = set()
    by_vertex = {vertex.id: vertex for vertex in deployment.vertices}
    for operator in deployment.deployed:
        assert operator.vertex == by_vertex[operator.vertex.id]
        seen.add(operator.id)
        if operator.residual:
            (name,) = operator.inputs
            assert running.task(name).vertex.reads == operator.vertex.reads
            continue
        for own, name in zip(operator.vertex.inputs, operator.inputs, strict=True):
            if name.query == query:
                assert name.vertex == own
                assert name in seen
            else:
                assert running.task(name).vertex.fingerprint == by_vertex[own].fingerprint


def contained(first: str, second: str, *, start: Start = Start.HISTORY, mode: Sharing = Sharing.SANA) -> Deployment:
    world = World()
    world.submit(first)
    world.describe(first)
    return world.submit(second, start=start, mode=mode)


def derived(deployment: Deployment) -> dict[TaskId, tuple[str, tuple[TaskId, ...]]]:
    """Where what is made of others' output is made, and of what."""
    sites = sites_of(deployment, {})
    return {o.id: (sites[o.id], o.inputs) for o in deployment.deployed if o.residual}


def sources(deployment: Deployment) -> dict[TaskId, str]:
    """Where its own sources are."""
    sites = sites_of(deployment, {})
    return {o.id: sites[o.id] for o in deployment.deployed if o.vertex.kind is VertexKind.SOURCE}


def test_a_query_that_is_part_of_another_reads_its_output() -> None:
    second = contained(COUNTS, HAVING)
    # The gateway, where the groups arrive anyhow.
    assert derived(second) == {tid("q-1/m1.d0"): ("us", (tid("q-0/m1"),))}
    assert kinds(second) == [VertexKind.MERGE, VertexKind.RESULTS]
    assert second.deployed[-1].inputs == (tid("q-1/m1.d0"),)
    assert second.used == (tid("q-0/m1"),)
    told = {operator["operator"]: operator for operator in deployment_json(second, sites_of(second, {}))["operators"]}
    assert (told["m1.p0"]["query"], told["m1.p0"]["with"], told["m1.p0"]["runs"]) == ("q-0", "q-0.m1.p0", True)
    assert told["m1.p0"]["residual"] == second.deployed[0].residual
    lines = deployment_lines(second)
    assert (
        "  m1.p0 at us: made of the output of q-0 (q-0.m1.p0): part of what q-0.m1.p0 sends, which us receives: HAVING"
        in lines
    )
    assert f"    by {second.deployed[0].residual}" in lines


def test_sources_of_several_sites_may_be_made_at_one() -> None:
    second = contained(COUNTS, f"SELECT window(ts, '20 seconds') AS w, {COARSER}")
    assert derived(second) == {tid(f"q-1/s1.d{n}"): ("eu", (tid(f"q-0/s1.p{n}"),)) for n in range(3)}
    merge = next(operator for operator in second.deployed if operator.vertex.id == vid("m1"))
    assert (sites_of(second, {})[merge.id], set(merge.inputs)) == (
        "eu",
        {tid(f"q-1/s1.d{number}") for number in range(3)},
    )


COARSER = "count(*) AS n FROM s GROUP BY window(ts, '20 seconds')"


@pytest.mark.parametrize("mode", [Sharing.SANA, Sharing.MAX_SHARE, Sharing.STRICT])
@pytest.mark.parametrize(("first", "second"), [(COUNTS, RENAMED), (ROWS, SWAPPED)])
def test_what_has_other_names_is_renamed_on_the_way(first: str, second: str, mode: Sharing) -> None:
    deployment = contained(first, second, mode=mode)
    made_of = {name for _, inputs in derived(deployment).values() for name in inputs}
    assert made_of == ({tid("q-0/m1")} if first == COUNTS else {tid(f"q-0/s1.p{number}") for number in range(3)})
    assert any("other names or another order of columns" in note for note in deployment.notes.values())


def test_without_inputs_in_common_only_names_are_changed() -> None:
    second = contained(COUNTS, HAVING, mode=Sharing.STRICT)
    assert not derived(second)
    assert set(second.stands) == {vid("s1.p2"), vid("s1.p1"), vid("s1.p0")}


def test_nothing_is_made_of_what_nobody_may_share() -> None:
    for mode, start in ((Sharing.NO_SHARE, Start.HISTORY), (Sharing.SANA, Start.NEXT_WINDOW)):
        world = World()
        world.submit(COUNTS, mode=mode, start=start)
        world.describe(COUNTS)
        assert not world.submit(HAVING).used


def test_what_is_made_of_an_operator_that_is_out_of_reach_is_made_anew() -> None:
    world = World()
    world.submit(COUNTS)
    world.describe(COUNTS)
    second = taken_back(world.submit(HAVING), "q-1", {tid("q-0/m1")}, why="it is gone")
    assert not derived(second)
    assert second.used == (tid("q-0/s1.p0"), tid("q-0/s1.p1"), tid("q-0/s1.p2"))
    assert [operator.id for operator in second.deployed] == [tid("q-1/m1"), tid("q-1/results")]
    assert second.deployed[-1].inputs == (tid("q-1/m1"),)
    assert second.notes[vid("m1")] == "m1.p0 at us: not shared with q-0.m1.p0, it is gone"
    third = taken_back(second, "q-1", {tid("q-0/s1.p1")}, why="it is gone")
    assert sources(third) == {tid("q-1/s1.p1"): "eu"}


def test_a_source_that_is_made_anew_is_at_its_own_site() -> None:
    first = contained(COUNTS, f"SELECT window(ts, '20 seconds') AS w, {COARSER}")
    second = taken_back(first, "q-1", {tid("q-0/s1.p2")}, why="it is gone")
    assert sources(second) == {
        tid("q-1/s1.p2"): "us",
        tid("q-1/s1.d1"): "eu",
        tid("q-1/s1.d0"): "eu",
    }
    merge = next(operator for operator in second.deployed if operator.vertex.id == vid("m1"))
    assert set(merge.inputs) == {tid("q-1/s1.p2"), tid("q-1/s1.d1"), tid("q-1/s1.d0")}


def test_what_is_made_of_an_operator_can_be_shared_in_turn() -> None:
    world = World()
    world.submit(COUNTS)
    world.describe(COUNTS)
    world.submit(HAVING)
    third = world.submit(HAVING)
    assert (kinds(third), third.used) == ([VertexKind.RESULTS], (tid("q-1/m1.d0"),))
    world.running.remove("q-1")
    assert [world.running.users(name) for name in (tid("q-0/m1"), tid("q-1/m1.d0"))] == [{"q-0", "q-2"}, {"q-2"}]
    world.running.remove("q-0")
    assert tid("q-0/s1.p2") in world.running.needed_by("q-2")


def test_drafts_are_planned_alike() -> None:
    assert World().submit(draft_of(COUNTS, CATALOG)) == World().submit(COUNTS)
