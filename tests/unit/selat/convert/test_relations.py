from __future__ import annotations

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from selat.convert import relations
from selat.convert.times import to_datetime
from selat.v1 import common_pb2
from selat.values import Binding, Column, Relation, RelationKind

_NAMES = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8)
_INSTANTS = st.integers(1, 7 * 10**15).map(to_datetime)

_RELATIONS = st.builds(
    Relation,
    name=_NAMES,
    kind=st.sampled_from(RelationKind),
    columns=st.lists(st.builds(Column, _NAMES, _NAMES), max_size=3).map(tuple),
    bindings=st.lists(st.builds(Binding, _NAMES, st.dictionaries(_NAMES, _NAMES, max_size=3)), max_size=3).map(tuple),
    event_time=st.none() | _NAMES,
    watermark_delay=st.timedeltas(timedelta(0), timedelta(days=400)),
    comment=_NAMES,
    created_at=st.none() | _INSTANTS,
)


def test_a_master_that_does_not_know_of_logs_leaves_it_open() -> None:
    told = common_pb2.Binding(site="us", has_log=False)
    assert relations.binding(told).has_log is False
    assert relations.binding(common_pb2.Binding(site="us")).has_log is None


@given(_RELATIONS)
def test_a_relation_survives_the_wire(relation: Relation) -> None:
    assert relations.relation(relations.relation_message(relation)) == relation
