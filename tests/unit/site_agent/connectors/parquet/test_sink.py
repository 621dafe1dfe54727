from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from planner.relations.connectors.parquet import FILE_BYTES
from site_agent.base.errors import ConnectorError
from site_agent.base.files import Files
from site_agent.connectors.parquet.files import UserFiles
from site_agent.connectors.parquet.sink import ParquetSink
from site_agent.connectors.registry import find_sink
from site_agent.connectors.sinks import RollPolicy, SinkError
from tests.unit.site_agent.connectors.parquet.rows import Epoch, commit_of, put, rows_of, seen

EPOCHS = [("q.s1.us", 3), ("q.s1.us", 4), ("q.s1.eu", 0)]


def test_a_commit_is_a_file_that_says_what_it_is_made_of(tmp_path: Path) -> None:
    writer = ParquetSink().open({"path": str(tmp_path / "new" / "out")}, "q-1")
    writer.prepare()
    size_bytes = put(writer, commit_of(7, EPOCHS), rows_of(EPOCHS))
    writer.close()

    path = tmp_path / "new" / "out" / "q-1-000000007.parquet"
    assert size_bytes == path.stat().st_size
    file = pq.ParquetFile(path)
    told = json.loads(file.schema_arrow.metadata[b"selat"])
    assert told == {"query": "q-1", "number": 7, "epochs": {"q.s1.us": [3, 5], "q.s1.eu": [0, 1]}}
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"
    assert seen(tmp_path) == sorted(EPOCHS)
    assert [p.name for p in (tmp_path / "new" / "out" / "_selat").iterdir()] == []


def listed(path: Path) -> list[str]:
    manifests = [json.loads(p.read_text()) for p in sorted((path / "_commits").iterdir())]
    return [entry["file"] for manifest in manifests for entry in manifest["files"]]


def test_a_partitioned_commit_has_a_manifest_of_its_files(tmp_path: Path) -> None:
    rows = pa.table({"v": [1, 2, 3], "c": ["us", "eu", "us"]})
    writer = ParquetSink().open({"path": str(tmp_path), "partition_by": "c"}, "q-1")
    writer.prepare()
    for _ in range(2):
        put(writer, commit_of(1, EPOCHS), rows)
    put(writer, commit_of(2, EPOCHS), rows.slice(1, 1))
    writer.close()

    first, second = sorted((tmp_path / "_commits").iterdir())
    assert (first.name, second.name) == ("q-1-000000001.json", "q-1-000000002.json")
    told = json.loads(first.read_text())
    path = tmp_path / "c=us" / "q-1-000000001.parquet"
    assert (told["query"], told["number"], told["epochs"]) == ("q-1", 1, {"q.s1.us": [3, 5], "q.s1.eu": [0, 1]})
    assert told["files"][0] == {
        "file": "c=us/q-1-000000001.parquet",
        "rows": 2,
        "size_bytes": path.stat().st_size,
    }
    assert sorted(listed(tmp_path)) == sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*.parquet"))


class StoppedError(Exception):
    pass


class StopsAfter(Files):
    """The agent dies after so many files were renamed."""

    def __init__(self, renames: int) -> None:
        super().__init__()
        self._left = renames

    def replace(self, source: Path, target: Path) -> None:
        if not self._left:
            raise StoppedError
        self._left -= 1
        super().replace(source, target)


@pytest.mark.parametrize("renames", [0, 1, 2])
def test_the_manifest_comes_when_all_files_are_there(tmp_path: Path, renames: int) -> None:
    rows = pa.table({"v": [1, 2], "c": ["us", "eu"]})
    options = {"path": str(tmp_path), "partition_by": "c"}
    writer = ParquetSink(StopsAfter(renames)).open(options, "q-1")
    writer.prepare()
    with pytest.raises(StoppedError):
        put(writer, commit_of(1, EPOCHS), rows)
    assert (len(list(tmp_path.rglob("*.parquet"))), listed(tmp_path)) == (renames, [])

    again = ParquetSink().open(options, "q-1")
    again.prepare()
    put(again, commit_of(1, EPOCHS), rows)
    assert sorted(listed(tmp_path)) == ["c=eu/q-1-000000001.parquet", "c=us/q-1-000000001.parquet"]


def test_what_was_half_written_goes_and_what_is_foreign_stays(tmp_path: Path) -> None:
    (tmp_path / "_selat" / "q-1").mkdir(parents=True)
    (tmp_path / "_selat" / "q-1" / "3-0.tmp").write_text("half")
    (tmp_path / "_selat" / "q-2").mkdir()
    (tmp_path / "_selat" / "q-2" / "1-0.tmp").write_text("of another query")
    (tmp_path / "notes.txt").write_text("foreign")
    writer = ParquetSink().open({"path": str(tmp_path)}, "q-1")
    writer.prepare()
    assert sorted(p.name for p in tmp_path.rglob("*") if p.is_file()) == ["1-0.tmp", "notes.txt"]


def test_a_type_that_parquet_lacks_is_an_error_of_the_sink(tmp_path: Path) -> None:
    rows = pa.table({"v": pa.array([None], pa.month_day_nano_interval())})
    writer = ParquetSink().open({"path": str(tmp_path)}, "q-1")
    writer.prepare()
    with pytest.raises(SinkError, match="cannot be written as Parquet"):
        put(writer, commit_of(1, EPOCHS), rows)


@pytest.mark.parametrize("other", [None, [("q.s1.us", 0)]], ids=["rubbish", "other epochs"])
def test_a_file_of_other_rows_is_not_written_over(tmp_path: Path, other: list[Epoch] | None) -> None:
    writer = ParquetSink().open({"path": str(tmp_path)}, "q-1")
    writer.prepare()
    path = tmp_path / "q-1-000000001.parquet"
    if other is None:
        path.write_text("not by us")
    else:
        put(writer, commit_of(1, other), rows_of(other))
    before = path.read_bytes()
    with pytest.raises(SinkError, match="is there already") as caught:
        put(writer, commit_of(1, EPOCHS), rows_of(EPOCHS))
    assert "data directory" in caught.value.hint
    assert path.read_bytes() == before


def test_options() -> None:
    sink = ParquetSink()
    assert sink.policy({"path": "/data"}) == RollPolicy(FILE_BYTES.default, 60.0)
    options = {"path": "/data", "connector": "parquet", "target_file_bytes": "1_000", "roll_interval": "500 ms"}
    assert sink.policy(options) == RollPolicy(1000, 0.5)
    assert find_sink({"connector": "parquet"}).name == "parquet"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "option 'path' is missing"),
        ({"path": "out"}, "option 'path' is 'out'"),
        ({"path": "/out", "roll_intervall": "1 s"}, "no option 'roll_intervall'"),
        ({"path": "/out", "partition_by": "a,,b"}, "option 'partition_by' is 'a,,b'"),
        ({"path": "/out", "compression": "best"}, "option 'compression' is 'best'"),
    ],
)
def test_wrong_options(options: dict[str, str], message: str) -> None:
    with pytest.raises(ConnectorError, match=message):
        ParquetSink().open(options, "q-1")


@pytest.mark.parametrize("options", [{"roll_interval": "0 s"}, {"target_file_bytes": "0"}])
def test_wrong_policies(options: dict[str, str]) -> None:
    with pytest.raises(ConnectorError, match=next(iter(options))):
        ParquetSink().policy({"path": "/out", **options})


def test_an_unknown_connector_is_said_with_those_there_are() -> None:
    with pytest.raises(ConnectorError, match="no sink has the connector 'files'") as caught:
        find_sink({"connector": "files"})
    assert "parquet" in caught.value.hint


def test_files_have_the_rights_that_the_users_umask_leaves_whatever_the_agents_is(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        writer = ParquetSink(UserFiles(0o022)).open({"path": str(tmp_path / "out"), "partition_by": "c"}, "q-1")
        writer.prepare()
        put(writer, commit_of(1, EPOCHS), pa.table({"c": [1], "v": [2]}))
        writer.close()
    finally:
        os.umask(before)
    (written,) = (tmp_path / "out").rglob("*.parquet")
    (manifest,) = (tmp_path / "out" / "_commits").iterdir()
    assert [stat.S_IMODE(path.stat().st_mode) for path in (written, manifest)] == [0o644, 0o644]
    assert {stat.S_IMODE(path.stat().st_mode) for path in (written.parent, manifest.parent, tmp_path / "out")} == {
        0o755
    }
