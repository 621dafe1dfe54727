"""Merges in parts among shared ones: which bins a part has is what it is."""

from __future__ import annotations

from dataclasses import replace

from planner.graph.operators import PartialAggregate
from planner.graph.plan import DraftPlan
from planner.sharing.vertices import Vertex, VertexKind
from tests.unit.planner.build import draft_of
from tests.unit.planner.sharing.build import CATALOG, residual_sql, vertices
from tests.unit.planner.sharing.names import vid

WINDOW = "window(ts, '10 seconds')"
COUNTS = f"SELECT k, w, count(*) AS n FROM s GROUP BY {WINDOW}, k, w"
OTHER_ORDER = f"SELECT w, count(1) AS c, k FROM s GROUP BY w, {WINDOW}, k"
TOP = f"{COUNTS} QUALIFY rank() OVER (PARTITION BY window ORDER BY n DESC) <= 3"


def split(sql: str, parts: int) -> DraftPlan:
    return draft_of(sql, CATALOG, parts=parts)


def of_kind(draft: DraftPlan, kind: VertexKind) -> list[Vertex]:
    return [vertex for vertex in vertices(draft).values() if vertex.kind is kind]


def fingerprints(draft: DraftPlan, kind: VertexKind) -> list[str]:
    return [vertex.fingerprint for vertex in of_kind(draft, kind)]


def test_parts_are_told_apart_by_their_bins() -> None:
    two, three = (fingerprints(split(COUNTS, parts), VertexKind.MERGE) for parts in (2, 3))
    one = fingerprints(split(COUNTS, 1), VertexKind.MERGE)
    assert len({*one, *two, *three}) == 6
    assert fingerprints(split(COUNTS, 1), VertexKind.SOURCE) == fingerprints(split(COUNTS, 3), VertexKind.SOURCE)


def test_keys_in_another_order_have_the_same_bins_and_are_shared() -> None:
    for kind in VertexKind:
        assert fingerprints(split(COUNTS, 4), kind) == fingerprints(split(OTHER_ORDER, 4), kind), kind
    one, other = (split(sql, 4).stage("s1").sql for sql in (COUNTS, OTHER_ORDER))
    assert "sort_array(array(xxhash64(_k0), xxhash64(_k1)))" in one
    assert "sort_array(array(xxhash64(_k0), xxhash64(_k1)))" in other


def test_a_final_is_shared_with_one_over_the_same_parts() -> None:
    again = TOP.replace("k, w, count(*) AS n", "w, k, count(1) AS n")
    assert fingerprints(split(TOP, 4), VertexKind.FINAL) == fingerprints(split(again, 4), VertexKind.FINAL)
    assert fingerprints(split(TOP, 4), VertexKind.FINAL) != fingerprints(split(TOP, 2), VertexKind.FINAL)


def test_sources_with_bins_of_other_keys_are_not_the_same() -> None:
    """As where a collation takes texts for equal: that key is left out of the bin."""
    draft = split(COUNTS, 2)
    source = draft.stage("s1")
    assert isinstance(source.body, PartialAggregate)
    fewer = replace(source, body=replace(source.body, bins=("_k0",)))
    changed = replace(draft, stages=(fewer, *draft.stages[1:]))
    assert fingerprints(changed, VertexKind.SOURCE) != fingerprints(draft, VertexKind.SOURCE)
    assert fingerprints(changed, VertexKind.MERGE) != fingerprints(draft, VertexKind.MERGE)


def test_what_is_made_of_a_source_has_the_bins_that_are_wanted() -> None:
    wanted, offered = (
        vertices(split(sql, 2))[vid("s1")] for sql in (COUNTS.replace("FROM s", "FROM s WHERE k > 3"), COUNTS)
    )
    made = residual_sql(wanted, offered)
    assert made is not None
    assert "pmod(xxhash64(sort_array(array(xxhash64(_k0), xxhash64(_k1)))), 64) AS _bin" in made


def test_a_part_is_made_of_the_same_part_alone() -> None:
    wanted = of_kind(split(f"{COUNTS} HAVING count(*) > 5", 2), VertexKind.MERGE)
    offered = of_kind(split(COUNTS, 2), VertexKind.MERGE)
    contained = [[residual_sql(one, other) is not None for other in offered] for one in wanted]
    assert contained == [[True, False], [False, True]]
    (whole,) = of_kind(split(COUNTS, 1), VertexKind.MERGE)
    assert all(residual_sql(one, whole) is None and residual_sql(whole, one) is None for one in offered)
