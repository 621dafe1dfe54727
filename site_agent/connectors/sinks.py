"""The ports of sinks: where a query's rows go out at a site.

    SinkTask --rows of some epochs--> SinkWriter.encode
             --files--> Ledger --prepare: intent on disk--> SinkWriter.write --record: it counts-->

The ledger numbers commits and remembers, before anything is written, of which epochs a commit consists. So a commit
that a crash interrupted is done again with the same number and the same rows, and a writer has one duty: writing the
same commit twice must leave it there once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from planner.relations.catalog import Relation, RelationKind
from planner.relations.connectors.spec import ConnectorSpec
from site_agent.base.errors import SiteAgentError
from site_agent.base.json import Json
from site_agent.base.options import refused


class SinkError(SiteAgentError):
    """Rows cannot be written as the sink is declared: a type that it has no form for, a wrong option."""

    code = "SINK_ERROR"


@dataclass(frozen=True, slots=True)
class EpochRange:
    """Epochs [first, next) of a channel."""

    first: int
    next: int


@dataclass(frozen=True, slots=True)
class SinkCommit:
    """What one commit is made of. The same number has the same epochs, always."""

    query_id: str
    number: int
    """Counted from 1 in each query."""
    epochs: Mapping[str, EpochRange]
    """By channel."""

    def to_json(self) -> dict[str, Json]:
        ranges: dict[str, Json] = {channel: [r.first, r.next] for channel, r in sorted(self.epochs.items())}
        return {"query": self.query_id, "number": self.number, "epochs": ranges}


@dataclass(frozen=True, slots=True)
class EncodedFile:
    """A file of a commit that is not on disk yet; of a sink without files, whatever it writes."""

    directories: tuple[str, ...]
    """Below the sink's."""
    rows: int
    data: bytes


@dataclass(frozen=True, slots=True)
class RollPolicy:
    """When collected rows are committed: whichever comes first."""

    size_bytes: int
    """Of the rows as they lie in memory."""
    interval_s: float
    """Since the oldest of them came, or since the last commit."""


class SinkWriter(Protocol):
    """Writes commits of one query at one site. Blocking; but for `encode`, called from one thread at a time."""

    def prepare(self) -> None:
        """Make ready to write; removes what a crash left half written. Raises OSError."""
        ...

    def encode(self, commit: SinkCommit, rows: pa.Table) -> Sequence[EncodedFile]:
        """The files of a commit, in memory. Several threads may encode at the same time.

        Raises:
            SinkError: these rows can never be written.
        """
        ...

    def write(self, commit: SinkCommit, files: Sequence[EncodedFile]) -> int:
        """Make the files visible and durable. A commit that is there already is written over, with the same.

        Returns:
            Bytes written.

        Raises:
            OSError: the disk, or the other side, refused; to be tried again.
            SinkError: the commit's place is taken by something else.
        """
        ...

    def close(self) -> None:
        """Leave nothing half written behind."""
        ...


def check_sink(spec: ConnectorSpec, options: Mapping[str, str]) -> None:
    """Raises ConnectorError naming the option that is unknown, missing or wrong by the connector's declaration.

    With the columns of a sink they were checked by the master.
    """
    with refused():
        spec.check_options(Relation("", RelationKind.SINK, (), ()), options)


class SinkConnector(Protocol):
    """What a sink module offers."""

    name: str
    fixed_options: tuple[str, ...]
    """Options that a query keeps as they were when it began: changing them would write a commit to two places."""

    def policy(self, options: Mapping[str, str]) -> RollPolicy:
        """Raises ConnectorError when an option is unknown, missing or wrong."""
        ...

    def open(self, options: Mapping[str, str], query_id: str) -> SinkWriter:
        """Raises ConnectorError as `policy`."""
        ...
