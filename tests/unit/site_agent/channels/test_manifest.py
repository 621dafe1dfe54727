from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from site_agent.channels.manifest import (
    BinRange,
    EndMark,
    EpochManifest,
    manifest_from_json,
    manifest_to_json,
)
from site_agent.exchange.convert import end_from_proto, end_to_proto, manifest_from_proto, manifest_to_proto

counts = st.integers(0, 2**63 - 1)
manifests = st.builds(
    EpochManifest,
    epoch=counts,
    rows=counts,
    size_bytes=counts,
    crc32=st.integers(0, 2**32 - 1),
    watermark_us=st.none() | st.integers(-(2**63), 2**63 - 1),
    idle=st.booleans(),
    bins=st.lists(st.builds(BinRange, st.integers(0, 2**32 - 1), counts, counts), max_size=5).map(tuple),
    raw_bytes=counts,
)


@given(manifest=manifests)
def test_json_and_wire_and_back(manifest: EpochManifest) -> None:
    assert manifest_from_json(json.loads(json.dumps(manifest_to_json(manifest)))) == manifest
    assert manifest_from_proto(manifest_to_proto(manifest)) == manifest


def test_a_commit_stays_at_home() -> None:
    manifest = EpochManifest(0, 0, 0, 0, None, False, (), {"offset": {"a": 1}})
    assert manifest_from_json(manifest_to_json(manifest)) == manifest
    assert manifest_from_proto(manifest_to_proto(manifest)).commit == {}


@pytest.mark.parametrize("end", [EndMark(None), EndMark(0), EndMark(7, "q.s.jfk", "jfk", totals={"rows_in": 3})])
def test_end_marks_come_back(end: EndMark) -> None:
    assert end_from_proto(end_to_proto(end)) == end
