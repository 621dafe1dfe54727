"""A seed: a checkpoint of a merge as a channel that ends, with which the task that takes its place begins.

Epoch 0 has one row with the checkpoint in JSON. The others have the rows of its open windows, each those of one view,
with their bins as a column. Each names, in the metadata of its schema, the checkpoint that it is of.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from machine.faults import reached
from site_agent.base.errors import SiteAgentError
from site_agent.base.faults import FaultPoint
from site_agent.channels.codec import FAST_LEVEL, EncodedRows, encode
from site_agent.channels.log import ChannelLog
from site_agent.state.runs import RunFile
from site_agent.tasks.checkpoint import Checkpoint, checkpoint_of, described
from site_agent.tasks.spec import WindowSpec
from site_agent.tasks.views import kind_of

EPOCH_BYTES = 256 * 1024
"""Bytes of the rows of an epoch of a seed, about. An epoch that is on its way to the successor's site holds the others
up that want to go there, so it is small."""
_HEAD = "checkpoint"
_NUMBER, _VIEW = b"selat.checkpoint", b"selat.view"


class SeedWithdrawnError(SiteAgentError):
    """The seed is not wanted any more."""


@dataclass(frozen=True, slots=True)
class SeedHead:
    """Holds what the first epoch of a seed says."""

    checkpoint: Checkpoint
    next_epoch: int
    """The first epoch of the predecessor's channel that the checkpoint's totals do not count."""


@dataclass(frozen=True, slots=True)
class Seed:
    """A checkpoint, and the files with its rows by view."""

    head: SeedHead
    window: WindowSpec
    runs: Mapping[str, Sequence[RunFile]] = field(default_factory=dict)

    def epochs(self, wanted: Callable[[], bool]) -> Iterator[EncodedRows]:
        """All epochs, made while they are asked for.

        Raises:
            SeedWithdrawnError: it is not `wanted` any more.
            DamagedStateError: a run is not as it was written.
        """
        number = self.head.checkpoint.number
        head = {**described(self.head.checkpoint), "next_epoch": self.head.next_epoch}
        yield encode(_named(pa.table({_HEAD: [json.dumps(head)]}), number, ""))
        for view, runs in sorted(self.runs.items()):
            for rows in self._rows(runs):
                if not wanted():
                    raise SeedWithdrawnError("the seed is not wanted any more")
                yield encode(_named(rows, number, view), level=FAST_LEVEL)
        reached(FaultPoint.SEED_WRITTEN)

    def _rows(self, runs: Sequence[RunFile]) -> Iterator[pa.Table]:
        """Rows of open windows, those of several small segments together."""
        closed_us = self.head.checkpoint.closed_us
        windows = kind_of(self.window)(self.window, closed_us=closed_us, runs=runs)
        together: list[pa.Table] = []
        for table in windows.stored_open():
            together.append(table)
            if sum(part.nbytes for part in together) >= EPOCH_BYTES:
                yield pa.concat_tables(together, promote_options="permissive")
                together = []
        if together:
            yield pa.concat_tables(together, promote_options="permissive")


def publish(log: ChannelLog, seed: Seed, wanted: Callable[[], bool]) -> None:
    """Publish a seed as the whole of a channel, or nothing of it. A channel that has its epochs is ended.

    Raises:
        SeedWithdrawnError: it is not `wanted` any more.
        ChannelError: the disk refused.
        SiteAgentError: a run is damaged.
    """
    log.publish_all(seed.epochs(wanted), {})
    log.finish()
    reached(FaultPoint.SEED_STORED)


def head_of(table: pa.Table | None, channel: str) -> SeedHead:
    """Return what the first epoch of a seed says. Raises SiteAgentError when `table` is not such an epoch."""
    try:
        value = json.loads(table.column(_HEAD)[0].as_py()) if table is not None else {}
        return SeedHead(checkpoint_of(value), value["next_epoch"])
    except (KeyError, ValueError, TypeError, IndexError) as error:
        raise SiteAgentError(f"channel {channel} has no checkpoint: {error!r}", ids={"channel": channel}) from error


def rows_of(table: pa.Table, head: SeedHead, channel: str) -> tuple[str, pa.Table]:
    """The view and the rows of one of the other epochs.

    Raises:
        SiteAgentError: it is not of the checkpoint that the first epoch describes.
    """
    said = table.schema.metadata or {}
    number = said.get(_NUMBER, b"").decode()
    if number != str(head.checkpoint.number):
        raise SiteAgentError(
            f"channel {channel} has rows of checkpoint {number or 'none'}, and begins with {head.checkpoint.number}",
            ids={"channel": channel},
        )
    return said.get(_VIEW, b"").decode(), table.replace_schema_metadata(None)


def _named(table: pa.Table, number: int, view: str) -> pa.Table:
    return table.replace_schema_metadata({_NUMBER: str(number), _VIEW: view})
