"""Sink `parquet`: a directory of Parquet files, one per commit (and per partition), each there whole or not at all.

    <path>/q-0001-a1b2c3-000000001.parquet            number 1 of the query's commits
    <path>/country=us/q-0001-a1b2c3-000000001.parquet with 'partition_by' = 'country'
    <path>/_commits/q-0001-a1b2c3-000000001.json      the files of a commit of several, once all are there
    <path>/_selat/q-0001-a1b2c3/                      files that are being written; nobody reads them

A file's name follows from query and number, and the ledger sees to it that a number's rows never change, so writing a
commit again replaces each of its files by the same. The footer's key `selat` has the epochs a file is made of.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from planner.relations.connectors.parquet import COMPRESSION, FILE_BYTES, PARQUET, PARTITION_BY, PATH, ROLL_INTERVAL
from site_agent.base.files import Files
from site_agent.connectors.parquet.partitions import partitions
from site_agent.connectors.paths import ANYWHERE, AllowedPaths
from site_agent.connectors.sinks import EncodedFile, RollPolicy, SinkCommit, SinkError, check_sink

METADATA_KEY = "selat"
COMMITS_DIRECTORY = "_commits"
WORK_DIRECTORY = "_selat"
"""Beside the files; readers of directories skip names with an underscore."""


class ParquetSink:
    """Opens Parquet directories."""

    name = PARQUET.name
    fixed_options = PARQUET.fixed

    def __init__(self, files: Files | None = None, allowed: AllowedPaths = ANYWHERE) -> None:
        self._files = files or Files()
        self._allowed = allowed

    def policy(self, options: Mapping[str, str]) -> RollPolicy:
        check_sink(PARQUET, options)
        return RollPolicy(FILE_BYTES.of(options), ROLL_INTERVAL.of(options))

    def open(self, options: Mapping[str, str], query_id: str) -> ParquetWriter:
        check_sink(PARQUET, options)
        layout = Layout(Path(PATH.of(options)), PARTITION_BY.of(options), COMPRESSION.of(options))
        self._allowed.check(layout.path)
        return ParquetWriter(layout, query_id, self._files, self._allowed)


@dataclass(frozen=True, slots=True)
class Layout:
    path: Path
    partition_by: tuple[str, ...]
    compression: str


class ParquetWriter:
    """One query's files in one directory. Other files there are left alone."""

    def __init__(self, layout: Layout, query_id: str, files: Files, allowed: AllowedPaths) -> None:
        self._allowed = allowed
        self._layout = layout
        self._query_id = query_id
        self._files = files
        self._work = layout.path / WORK_DIRECTORY / query_id

    def prepare(self) -> None:
        self._allowed.check(self._work)
        self._files.remove_tree(self._work)
        self._make_durable(self._layout.path)
        if self._layout.partition_by:
            self._make_durable(self._layout.path / COMMITS_DIRECTORY)
        self._files.make_directory(self._work)

    def encode(self, commit: SinkCommit, rows: pa.Table) -> Sequence[EncodedFile]:
        parts = partitions(rows, self._layout.partition_by)
        return [EncodedFile(p.directories, p.rows.num_rows, self._encoded(commit, p.rows)) for p in parts]

    def write(self, commit: SinkCommit, files: Sequence[EncodedFile]) -> int:
        self._allowed.check(self._work)
        stem = f"{commit.query_id}-{commit.number:09d}"
        name = f"{stem}.parquet"
        written, listed = [], []
        for index, part in enumerate(files):
            temporary = self._work / f"{commit.number}-{index}.tmp"
            self._files.write(temporary, [part.data], sync=True)
            written.append((temporary, self._layout.path.joinpath(*part.directories)))
            file = "/".join((*part.directories, name))
            listed.append({"file": file, "rows": part.rows, "size_bytes": len(part.data)})
        manifest = self._work / f"{commit.number}-commit.tmp"
        if self._layout.partition_by:
            content = json.dumps({**commit.to_json(), "files": listed}, sort_keys=True)
            self._files.write(manifest, [content.encode()], sync=True)
        # All of a commit's files are on disk before the first is seen: no full disk stops it between two of them.
        for temporary, directory in written:
            self._make_durable(directory)
            _refuse_another(directory / name, commit)
            self._files.replace(temporary, directory / name)
        for directory in dict.fromkeys(directory for _, directory in written):
            self._files.sync_directory(directory)
        if self._layout.partition_by:
            # Last: who reads what the manifests list sees the commit whole or not at all.
            self._files.replace(manifest, self._layout.path / COMMITS_DIRECTORY / f"{stem}.json")
            self._files.sync_directory(self._layout.path / COMMITS_DIRECTORY)
        return sum(len(part.data) for part in files)

    def close(self) -> None:
        self._files.remove_tree(self._work)

    def _encoded(self, commit: SinkCommit, rows: pa.Table) -> bytes:
        told = {METADATA_KEY: _described(commit)}
        schema = pa.schema([field.with_nullable(True).remove_metadata() for field in rows.schema])
        sink = pa.BufferOutputStream()
        try:
            table = rows.cast(schema).replace_schema_metadata(told)
            pq.write_table(table, sink, compression=self._layout.compression, write_statistics=True)
        except pa.ArrowException as error:
            raise SinkError(
                f"rows of query {commit.query_id} cannot be written as Parquet: {error}",
                hint="CAST the column to a type that Parquet has",
                ids={"query": commit.query_id},
            ) from error
        return bytes(sink.getvalue().to_pybytes())

    def _make_durable(self, directory: Path) -> None:
        """Each directory that is missing, with its name in its parent.

        Raises:
            PathRefusedError: a link leads out of the allowed directories.
        """
        self._allowed.check(directory)
        missing = []
        while not directory.exists():
            missing.append(directory)
            directory = directory.parent
        for made in reversed(missing):
            self._files.make_directory(made)
            self._files.sync_directory(made.parent)


def _described(commit: SinkCommit) -> str:
    return json.dumps(commit.to_json(), sort_keys=True)


def _refuse_another(path: Path, commit: SinkCommit) -> None:
    """A task that lost its ledger counts from 1 again; it must not write over rows that are nowhere else any more.

    Raises:
        SinkError: a file of that name is there, and made of other epochs.
    """
    if not path.exists():
        return
    try:
        with path.open("rb") as file:
            told = (pq.read_metadata(file).metadata or {}).get(METADATA_KEY.encode(), b"").decode()
    except (pa.ArrowInvalid, UnicodeDecodeError):
        told = "something that is no Parquet file"
    if told != _described(commit):
        raise SinkError(
            f"{path} is there already and holds {told or 'rows of unknown epochs'}",
            hint="was the agent's data directory lost? cancel the query and submit it again",
            ids={"query": commit.query_id},
        )
