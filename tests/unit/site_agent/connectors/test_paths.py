"""Allowed paths: every way out of their directories that a path, a pattern or a link can take."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest

from planner.values.splits import NOTHING, FilePart
from site_agent.base.errors import ConnectorError, PathRefusedError
from site_agent.connectors.files.connector import FilesConnector
from site_agent.connectors.parquet.sink import ParquetSink, ParquetWriter
from site_agent.connectors.paths import AllowedPaths
from site_agent.connectors.sinks import EpochRange, SinkCommit
from site_agent.connectors.sources import ReadLimit, SourceContext, Split
from site_agent.engine import EmptyScan, Field
from tests.unit.site_agent.connectors.parquet.rows import put
from tests.unit.site_agent.connectors.preparers import LinesPreparer

NOW = datetime(2026, 1, 1, tzinfo=UTC)
COMMIT = SinkCommit("q-1", 1, {"c": EpochRange(0, 1)})


class World:
    """`in` is allowed, `secret` is not."""

    def __init__(self, root: Path) -> None:
        self.inside, self.secret = root / "in", root / "secret"
        for directory in (self.inside, self.secret, root / "in-law"):
            directory.mkdir()
        (self.inside / "a.csv").write_text("1\n")
        (self.secret / "b.csv").write_text("2\n")
        self.allowed = AllowedPaths((self.inside,))
        self.connector = FilesConnector(LinesPreparer(), self.allowed)
        self.directory = root / "state" / "source"
        self.directory.mkdir(parents=True)

    def context(self, path: Path | str, **options: str) -> SourceContext:
        given: Mapping[str, str] = {"connector": "files", "path": str(path), "format": "csv", **options}
        return SourceContext("r", "us", (Field("x", "INT"),), ("x",), "x", given, self.directory, NOW)

    def open(self, kind: str, path: str) -> None:
        if kind == "sink":
            ParquetSink(allowed=self.allowed).open({"path": path}, "q-1")
        elif kind == "table":
            self.connector.open_table(self.context(path))
        else:
            self.connector.open_source(self.context(path, mode=kind))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_what_is_inside_is_read(world: World) -> None:
    (world.inside / "again.csv").symlink_to(world.inside / "a.csv")
    source = world.connector.open_source(world.context(world.inside))
    assert source.poll(source.initial(), now=NOW, limit=ReadLimit()).end == {"files": 2}
    splits = world.connector.open_table(world.context(world.inside)).splits(100)
    assert sum(split.size_bytes for split in splits) == 4


def test_a_split_without_files_leads_nowhere(world: World) -> None:
    scan = world.connector.open_table(world.context(world.inside)).scan(Split((NOTHING,)))
    assert scan == EmptyScan((Field("x", "INT"),))


@pytest.mark.parametrize("way", ["secret", "in/../secret", "in-law", "in/link", "in/link/b.csv"])
@pytest.mark.parametrize("kind", ["follow", "replay", "table", "sink"])
def test_a_path_that_leads_out_is_refused_with_all_that_there_is_to_know(world: World, way: str, kind: str) -> None:
    (world.inside / "link").symlink_to(world.secret)
    path = f"{world.inside.parent}/{way}"
    with pytest.raises(PathRefusedError) as refused:
        world.open(kind, path)
    message = refused.value.message
    assert repr(path) in message
    assert str(Path(path).resolve()) in message
    assert message.endswith(f"allows: {world.inside}")
    assert "--allow-path" in refused.value.hint


@pytest.mark.parametrize("pattern", ["../secret/*", "..", "*/../../secret/*.csv"])
def test_a_pattern_cannot_go_up(world: World, pattern: str) -> None:
    with pytest.raises(ConnectorError) as refused:
        world.connector.open_table(world.context(world.inside, pattern=pattern))
    assert "without '..'" in refused.value.hint


@pytest.mark.parametrize(("link", "pattern"), [("b.csv", "*.csv"), ("deeper", "*/*.csv")])
def test_each_file_that_a_pattern_matches_is_followed(world: World, link: str, pattern: str) -> None:
    (world.inside / link).symlink_to(world.secret / "b.csv" if link == "b.csv" else world.secret)
    context = world.context(world.inside, pattern=pattern)
    source = world.connector.open_source(context)
    with pytest.raises(PathRefusedError):
        source.poll(source.initial(), now=NOW, limit=ReadLimit())
    with pytest.raises(PathRefusedError):
        world.connector.open_table(context).splits(1)
    replayed = world.connector.open_source(world.context(world.inside, pattern=pattern, mode="replay"))
    with pytest.raises(PathRefusedError):
        replayed.initial()


def test_a_file_that_becomes_a_link_after_it_was_found_is_not_read(world: World) -> None:
    context = world.context(world.inside)
    source = world.connector.open_source(context)
    end = source.poll(source.initial(), now=NOW, limit=ReadLimit()).end
    (world.inside / "a.csv").unlink()
    (world.inside / "a.csv").symlink_to(world.secret / "b.csv")
    with pytest.raises(PathRefusedError):
        source.scan(source.initial(), end)
    with pytest.raises(PathRefusedError):
        world.connector.open_table(context).scan(Split((FilePart(str(world.inside / "a.csv"), 0, 1),)))


def test_a_split_that_names_another_file_is_not_read(world: World) -> None:
    table = world.connector.open_table(world.context(world.inside))
    with pytest.raises(PathRefusedError):
        table.scan(Split((FilePart(str(world.secret / "b.csv"), 0, 1),)))


def write_all(writer: ParquetWriter) -> None:
    writer.prepare()
    put(writer, COMMIT, pa.table({"x": [1], "y": [2]}))


@pytest.mark.parametrize("planted", ["_selat", "x=1", "_commits"])
def test_a_sink_follows_no_link_out_of_its_directory(world: World, planted: str) -> None:
    options = {"path": str(world.inside / "out"), "partition_by": "x"}
    (world.inside / "out").mkdir()
    (world.inside / "out" / planted).symlink_to(world.secret)
    writer = ParquetSink(allowed=world.allowed).open(options, "q-1")
    with pytest.raises(PathRefusedError):
        write_all(writer)
    assert [path.name for path in world.secret.iterdir()] == ["b.csv"]


def test_without_a_directory_nothing_is_allowed_and_with_the_root_everything() -> None:
    with pytest.raises(PathRefusedError, match="allows: none"):
        AllowedPaths(()).check("/etc")
    AllowedPaths((Path("/"),)).check("/etc")


def test_an_allowed_directory_may_itself_be_a_link(world: World, tmp_path: Path) -> None:
    (tmp_path / "alias").symlink_to(world.inside)
    allowed = AllowedPaths((tmp_path / "alias",))
    allowed.check(world.inside / "a.csv")
    allowed.check(tmp_path / "alias" / "a.csv")
