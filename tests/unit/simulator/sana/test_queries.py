from __future__ import annotations

from planner.graph.ids import VertexId
from planner.sharing.vertices import Vertex, VertexKind
from simulator.sana.queries import BIRTHPLACES, QUERIES, in_one_stream, standard
from simulator.sana.world import World, WorldSettings

BIRTHS = World(WorldSettings(), 0).births_at(0.0)


def vertices(name: str) -> tuple[Vertex, ...]:
    return standard().carried(next(query for query in QUERIES if query.name == name), BIRTHS)


def prints(name: str, *, kind: VertexKind | None = None) -> set[str]:
    return {v.fingerprint for v in vertices(name) if kind is None or v.kind is kind}


def test_queries_are_as_large_as_those_of_the_source() -> None:
    for query in QUERIES:
        found = vertices(query.name)
        assert 6 <= len(found) <= 18
        assert 4 <= sum(v.stage in ("posts", "replies", "reposts", "requests", "loads") for v in found) <= 6


def test_the_first_and_the_seventh_have_nothing_in_common_with_others() -> None:
    for name in ("1", "7"):
        others = [prints(query.name) for query in QUERIES if query.name != name]
        assert not any(prints(name) & other for other in others)


def test_all_others_share_streams_and_some_share_stages() -> None:
    others = {query.name: prints(query.name) for query in QUERIES if query.name not in ("1", "7")}
    for name, own in others.items():
        assert any(own & other for known, other in others.items() if known != name)
    # The top k of 3 is made of the counts of 6, in other words.
    assert prints("3", kind=VertexKind.MERGE).isdisjoint(prints("6", kind=VertexKind.MERGE))
    assert len(prints("3") & prints("6")) == 10


def test_in_one_stream_all_others_share() -> None:
    drafts = standard()
    found = [{v.fingerprint for v in drafts.carried(query, BIRTHS)} for query in in_one_stream(QUERIES)]
    for number, own in enumerate(found):
        assert bool(own & found[1]) == (number not in (0, 6))


def test_whole_records_come_to_stages_that_are_bound_to_no_site() -> None:
    found = {v.id: v for v in vertices("9")}
    born = found[VertexId("posts", BIRTHPLACES.index("ohio"))]
    (stage,) = (vertex for vertex in found.values() if born.id in vertex.inputs)
    assert (born.pinned, stage.pinned, stage.inputs) == ("ohio", None, (born.id,))
    assert born.output_bytes_per_s == BIRTHS.rows_per_s["posts", "ohio"] * BIRTHS.record_bytes
    assert 0 < stage.output_bytes_per_s < born.output_bytes_per_s / 10
