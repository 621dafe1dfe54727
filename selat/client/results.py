"""Results of a query, epoch by epoch, as Arrow; each exactly once, across losses of the connection."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

import pyarrow as pa

from contract.arrow_types import arrow_schema
from selat.convert.queries import query_info
from selat.convert.results import record_batch
from selat.convert.times import to_datetime
from selat.errors import Detail, InvalidArgument, QueryFailed, SelatError
from selat.rows.changes import Changes
from selat.transport.retry import Reconnect
from selat.transport.session import Call, Following, Session
from selat.v1 import query_pb2
from selat.values import Cursor, QueryInfo, QueryState, ResultBatch

if TYPE_CHECKING:
    import pandas as pd


FIRST: Literal["first"] = "first"
FromEpoch = int | Literal["first"]


@dataclass(frozen=True, slots=True)
class Start:
    """The position at which a reader begins."""

    cursor: Cursor | None = None
    from_epoch: FromEpoch = 0
    """The first epoch of channels that the cursor does not name; `first`: the first that is kept."""


class Results(Iterator[ResultBatch]):
    """An iterator over result batches, in order within each channel.

    Following, it ends when the query is over, and raises QueryFailed when the query failed. Not following, it ends with
    what there is now. If the master goes away, it tries again from where it stood, and raises ConnectionLost after
    `patience`.
    """

    def __init__(self, session: Session, info: QueryInfo, *, follow: bool, start: Start) -> None:
        self._session = session
        self._info = info
        self._follow = follow
        self._next_epochs = checked_cursor(start.cursor)
        self._from_first = start.from_epoch == FIRST
        self._from_epoch = 0 if start.from_epoch == FIRST else checked_epoch(start.from_epoch)
        self._told = False
        self._following: Following[query_pb2.FetchResultsResponse] = Following(
            self._open, self._complete, address=session.address, retry=self._reconnect(session.waits.reconnect)
        )
        self._batches = self._read()

    @property
    def cursor(self) -> Cursor:
        """Where this reader stands: give it to `Query.results(cursor=...)` to go on after the last batch handed out."""
        return dict(self._next_epochs)

    @property
    def info(self) -> QueryInfo:
        """The query as last seen; after the last batch, as it was then."""
        return self._info

    def __next__(self) -> ResultBatch:
        batch = next(self._batches)
        self._next_epochs[batch.channel] = batch.epoch + 1
        return batch

    def rows(self) -> Iterator[dict[str, Any]]:
        """The remaining rows, one dict each.

        `cursor` moves with the last row of a batch: when the reader stops in mid-batch, resuming repeats that batch.
        """
        for batch in self._batches:
            names = batch.batch.schema.names
            last = batch.batch.num_rows - 1
            if last < 0:
                self._next_epochs[batch.channel] = batch.epoch + 1
            columns = [column.to_pylist(maps_as_pydicts="lossy") for column in batch.batch.columns]
            for i, values in enumerate(zip(*columns, strict=True)):
                if i == last:
                    self._next_epochs[batch.channel] = batch.epoch + 1
                yield dict(zip(names, values, strict=True))

    def arrow(self) -> pa.Table:
        """The remaining rows as one Arrow table; it has the result's columns even when there are no rows."""
        batches = [batch.batch for batch in self]
        schema = common_schema(batches[0].schema) if batches else arrow_schema(self._info.columns)
        return pa.Table.from_batches([aligned(batch, schema) for batch in batches], schema=schema)

    def table(self) -> pa.Table:
        """Return the rows as the remaining changes leave them, of a query with EMIT EVERY: of each key the newest one.
        It has no columns that tell of changes. The results of other queries are as `arrow` returns them."""
        if self._info.upsert_by is None:
            return self.arrow()
        changes = Changes(self._info.upsert_by, arrow_schema(self._info.columns))
        for batch in self:
            changes.add(aligned(batch.batch, changes.schema))
        return changes.table()

    def pandas(self) -> pd.DataFrame:
        """The remaining rows as a pandas DataFrame; needs `pip install 'selat[pandas]'`."""
        if importlib.util.find_spec("pandas") is None:
            raise SelatError("pandas is not installed", detail=Detail(hint="pip install 'selat[pandas]'"))
        frame: pd.DataFrame = self.arrow().to_pandas()
        return frame

    def close(self) -> None:
        """Ends the reading; may be called from any thread. The query runs on."""
        self._following.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _reconnect(self, patience: timedelta) -> Reconnect:
        return Reconnect(patience, what=f"results of {self._info.id}")

    def _open(self) -> Call[query_pb2.FetchResultsResponse]:
        self._told = False
        request = query_pb2.FetchResultsRequest(
            query=self._info.id,
            cursor=[query_pb2.ChannelCursor(channel=c, epoch=e) for c, e in sorted(self._next_epochs.items())],
            follow=self._follow,
            from_epoch=self._from_epoch,
            from_first=self._from_first,
            compressed=True,
        )
        return self._session.queries.FetchResults(request)

    def _complete(self) -> bool:
        return self._told and (self._info.over or not self._follow)

    def _read(self) -> Iterator[ResultBatch]:
        for message in self._following.messages():
            if message.HasField("query"):
                self._info = query_info(message.query)
                self._told = True
            elif message.epoch >= self._next_epochs.get(message.channel, self._from_epoch):
                yield self._batch(message)
        if self._follow and self._told and self._info.state is QueryState.FAILED:
            raise query_failed(self._info)

    def _batch(self, message: query_pb2.FetchResultsResponse) -> ResultBatch:
        return ResultBatch(
            batch=record_batch(message),
            epoch=message.epoch,
            channel=message.channel,
            watermark=to_datetime(message.watermark_us) if message.HasField("watermark_us") else None,
            cursor={**self._next_epochs, message.channel: message.epoch + 1},
        )


def query_failed(info: QueryInfo) -> QueryFailed:
    """The error of a query in the state FAILED."""
    reason = info.reason or "the master gives no reason"
    return QueryFailed(f"query {info.id} failed: {reason}", detail=Detail(ids={"query": info.id}))


def checked_cursor(cursor: Cursor | None) -> dict[str, int]:
    """A copy; raises InvalidArgument when it is not a cursor."""
    if cursor is None:
        return {}
    pairs = cursor.items() if isinstance(cursor, dict) else dict(cursor).items()
    if not all(isinstance(c, str) and type(e) is int and e >= 0 for c, e in pairs):
        hint = "give what `Results.cursor` or `ResultBatch.cursor` returned"
        raise InvalidArgument(f"{cursor!r} is not a cursor", detail=Detail(hint=hint))
    return dict(pairs)


def checked_epoch(epoch: int) -> int:
    """The same; raises InvalidArgument when it is no epoch's number."""
    if type(epoch) is not int or not 0 <= epoch < 2**63:
        raise InvalidArgument(f"{epoch!r} is no epoch", detail=Detail(hint="epochs are numbered from 0"))
    return epoch


def common_schema(schema: pa.Schema) -> pa.Schema:
    """The schema that all batches of a result are given: the first one's, with nulls allowed everywhere."""
    return pa.schema([field.with_nullable(True) for field in schema])


def aligned(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch, cast to that schema: sites may differ in which columns are nullable."""
    if batch.schema.equals(schema):
        return batch
    columns = [column.cast(field.type) for column, field in zip(batch.columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=schema)
