"""`selat push` against a real IngestService: every format, the same input twice, what is refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner, Result

from selat.cli import cli
from tests.integration.fake_master import FakeMaster
from tests.integration.ingest_site import IngestSite, tell
from tests.integration.test_ingest import rows

CSV = """name,id,amount,ts
a,1,0.5,2026-01-01T00:00:00Z
,2,,2026-01-01 00:00:01
"b,c",3,1e3,2026-01-01T02:00:02+02:00
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[IngestSite]:
    made = IngestSite(tmp_path / "us")
    made.start()
    yield made
    made.close()


@pytest.fixture(autouse=True)
def master(site: IngestSite, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMaster]:
    fake = FakeMaster()
    tell(fake, site)
    fake.start()
    monkeypatch.setenv("SELAT_MASTER", fake.address)
    yield fake
    fake.stop()


def push(*arguments: object, text: str | bytes | None = None) -> Result:
    return CliRunner().invoke(cli, ["push", "orders", "--site", "us", *map(str, arguments)], input=text)


def test_csv_with_times_of_every_kind(site: IngestSite, tmp_path: Path) -> None:
    (tmp_path / "o.csv").write_text(CSV)
    result = push(tmp_path / "o.csv", "-o", "json")
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["rows"], told["batches"], told["duplicate_rows"], told["ended"]) == (3, 1, 0, False)
    assert site.rows() == [1, 2, 3]
    assert site.rows("name") == ["a", None, "b,c"]
    assert site.rows("amount") == [0.5, None, 1000.0]
    assert [t.second for t in site.rows("ts")] == [0, 1, 2]


def test_json_lines_from_standard_input(site: IngestSite) -> None:
    text = '{"id": 1, "amount": 2, "ts": "2026-01-01T00:00:00"}\n\n{"ID": 2, "name": "ü", "ts": null}\n'
    result = push("-", "--format", "json", "-o", "table", text=text)
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith("orders at us: 2 rows, ")
    assert site.rows("ts") == [datetime(2026, 1, 1, tzinfo=UTC), None]


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "arrows"])
def test_parquet_and_arrow_files(site: IngestSite, tmp_path: Path, suffix: str) -> None:
    path, table = tmp_path / f"o.{suffix}", rows(*range(25))
    if suffix == "parquet":
        pq.write_table(table, path, row_group_size=7)
    else:
        with pa.OSFile(str(path), "wb") as sink:
            writer = pa.ipc.new_file(sink, table.schema) if suffix == "arrow" else pa.ipc.new_stream(sink, table.schema)
            with writer:
                writer.write_table(table, max_chunksize=4)
    result = push(path, "--batch-rows", 10)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["batches"] == 3
    assert site.rows() == list(range(25))


def test_the_same_input_again_is_skipped_and_goes_on_where_it_stopped(site: IngestSite, tmp_path: Path) -> None:
    path = tmp_path / "o.csv"
    pyarrow.csv.write_csv(rows(*range(20)), path)
    push(path, "--producer", "day-1", "--batch-rows", 5)
    pyarrow.csv.write_csv(rows(*range(32)), path)
    result = push(path, "--producer", "day-1", "--batch-rows", 5, "--end")
    told = json.loads(result.stdout)
    assert (told["rows"], told["duplicate_rows"], told["last_sequence"], told["ended"]) == (12, 20, 7, True)
    assert site.rows() == list(range(32))
    assert site.log.ended

    again = push(path, "--producer", "day-1", "--batch-rows", 5, "--end", "-o", "table")
    assert "0 rows, 0 B, 32 rows skipped that were there, stream ended" in again.stdout
    refused = push(path, "--producer", "day-2")
    assert refused.exit_code == 3
    assert "STREAM_ENDED" in refused.stderr


@pytest.mark.parametrize(
    ("name", "text", "exit_code", "message"),
    [
        ("o.csv", "id,amount,name,ts\nx,1,a,2026-01-01\n", 2, "cannot be read as csv"),
        ("o.csv", "id,amount,name,ts\n1,1,a,yesterday\n", 2, "column ts"),
        ("o.csv", "id,amount,name\n1,1,a\n", 3, "column ts TIMESTAMP is missing"),
        ("o.json", '{"id": 1}\n{"id": "x"}\n', 2, "row 2: column id: 'x' is no int64"),
        ("o.json", "[1]\n", 2, "line 1 is no JSON object"),
        ("o.json", "{\n", 2, "line 1 is no JSON"),
        ("o.json", '{"idd": 1}\n', 2, "no column idd"),
        ("o.parquet", "no parquet", 2, "cannot be read as parquet"),
        ("o.txt", "x", 2, "the format of"),
    ],
)
def test_input_that_is_wrong_is_told_and_nothing_of_the_batch_is_stored(
    site: IngestSite, tmp_path: Path, name: str, text: str, exit_code: int, message: str
) -> None:
    (tmp_path / name).write_text(text)
    result = push(tmp_path / name)
    assert (result.exit_code, site.log.kept.next_record) == (exit_code, 0), result.output
    assert message in result.stderr


def test_a_missing_file_and_an_unknown_stream(tmp_path: Path) -> None:
    result = push(tmp_path / "nothing.csv")
    assert (result.exit_code, "cannot be read: No such file" in result.stderr) == (2, True)
    other = CliRunner().invoke(cli, ["push", "visits", "--site", "us", "--format", "json"], input="{}")
    assert other.exit_code == 4
