from __future__ import annotations

from pathlib import Path

import pytest

from contract.splits import condition_to_proto
from planner.values.ranges import Comparison
from selat.v1 import common_pb2, exchange_pb2, site_pb2
from site_agent.agent.splits import list_splits
from site_agent.base.errors import ConnectorError
from site_agent.connectors.registry import make_connectors
from tests.unit.site_agent.connectors.preparers import LinesPreparer

CONNECTORS = make_connectors(LinesPreparer())


def asked(**options: str) -> exchange_pb2.ListSplitsRequest:
    relation = common_pb2.Relation(
        name="words",
        kind=common_pb2.RELATION_KIND_TABLE,
        columns=[common_pb2.Column(name="line", type="STRING")],
        bindings=[common_pb2.Binding(site="us", options=options)],
    )
    return exchange_pb2.ListSplitsRequest(relation=relation, split_bytes=4)


def test_the_splits_of_a_bound_table(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a\nb\nc\nd\n")
    found = list_splits(CONNECTORS, "us", asked(connector="files", format="csv", path=str(tmp_path)))
    path = str(tmp_path / "a.csv")
    assert [list(split.parts) for split in found.splits] == [
        [site_pb2.FilePart(path=path, offset=0, length=4)],
        [site_pb2.FilePart(path=path, offset=4, length=4)],
    ]
    assert [split.size_bytes for split in found.splits] == [4, 4]


def test_directories_that_cannot_match_are_left_out(tmp_path: Path) -> None:
    for country, text in (("us", "a\n"), ("eu", "bb\n")):
        (tmp_path / f"country={country}").mkdir()
        (tmp_path / f"country={country}" / "a.csv").write_text(text)
    request = asked(connector="files", format="csv", path=str(tmp_path), partition_by="country")
    request.relation.columns.append(common_pb2.Column(name="country", type="STRING"))
    request.split_bytes = 100
    request.needed.CopyFrom(condition_to_proto(Comparison("country", "=", "eu")))
    (split,) = list_splits(CONNECTORS, "us", request).splits
    assert [part.path for part in split.parts] == [str(tmp_path / "country=eu" / "a.csv")]
    assert (split.size_bytes, split.left_out_bytes) == (3, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "option 'connector' is missing"),
        ({"connector": "files", "format": "csv", "path": "/no/such/path"}, "/no/such/path does not exist"),
        ({"connector": "files", "format": "csv", "path": "/tmp", "mode": "replay"}, "option 'mode' is of no use here"),
    ],
)
def test_what_has_no_splits(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConnectorError) as caught:
        list_splits(CONNECTORS, "us", asked(**options))
    assert caught.value.message == message
