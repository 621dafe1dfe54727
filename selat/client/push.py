"""Sending rows to a stream: a producer keeps each batch until the site's agent has it on disk."""

from __future__ import annotations

import logging
import threading
import uuid
from collections import deque
from dataclasses import dataclass, replace
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Self

import grpc

from contract.arrow_types import arrow_schema
from selat.errors import Detail, InvalidArgument, NotFound, SelatError, StatementError, Unavailable
from selat.rows.encoding import encoded_batches, to_table
from selat.transport.channel import open_channel, to_error
from selat.transport.retry import Reconnect
from selat.transport.session import Call, Session
from selat.v1 import catalog_pb2, common_pb2, ingest_pb2, ingest_pb2_grpc, site_pb2
from selat.values import PushTotals, Relation
from wire import names
from wire.security import Security

if TYPE_CHECKING:
    from selat.rows.encoding import Pushable

MAX_UNACKNOWLEDGED_BYTES = 16 * 1024 * 1024
MAX_UNACKNOWLEDGED_BATCHES = 64

_NOT_THERE_YET = "UNKNOWN_STREAM"
"""Error codes of an agent that does not know the stream yet, or no longer."""
_FINAL = frozenset(
    {"SCHEMA_MISMATCH", "INVALID_PUSH", "SEQUENCE_GAP", "STREAM_ENDED", "CONNECTOR_ERROR", "CORRUPT_LOG"}
)
"""Error codes that no retry changes."""

logger = logging.getLogger("selat")


@dataclass(frozen=True, slots=True)
class _Batch:
    sequence: int
    rows: int
    data: bytes


class _Call:
    """One running call of Push."""

    def __init__(self, address: str, opening: ingest_pb2.OpenPush, security: Security) -> None:
        self.address = address
        self._channel = open_channel(address, names.site(opening.site), security)
        self._requests: SimpleQueue[ingest_pb2.PushRequest | None] = SimpleQueue()
        self._requests.put(ingest_pb2.PushRequest(open=opening))
        self._stub = ingest_pb2_grpc.IngestServiceStub(self._channel)
        self._responses: Call[ingest_pb2.PushResponse] = self._stub.Push(iter(self._requests.get, None))

    def send(self, batch: _Batch) -> None:
        message = ingest_pb2.PushBatch(sequence=batch.sequence, arrow_stream=batch.data)
        self._requests.put(ingest_pb2.PushRequest(batch=message))

    def receive(self) -> ingest_pb2.PushResponse:
        """The next answer. Raises grpc.RpcError, and Unavailable when the agent ended the call."""
        for response in self._responses:
            return response
        raise Unavailable(f"the agent at {self.address} ended the call")

    def finish(self, stream: str, site: str, *, timeout_s: float) -> int:
        """Ends the stream and returns the number of its rows. Raises grpc.RpcError."""
        request = ingest_pb2.FinishRequest(stream=stream, site=site)
        return self._stub.Finish(request, timeout=timeout_s).rows

    def close(self) -> None:
        self._requests.put(None)
        self._responses.cancel()
        self._channel.close()


class Producer:
    """Sends batches to one stream at one site; made by `Client.push`.

    A batch has the next sequence number of the producer's id. It is kept here until the agent says that it is on disk,
    and sent again after every break; what the agent has already it does not store twice. `send` returns when the batch
    is on its way, `flush` when all are on disk. Methods may be called from several threads; one at a time is served.

    Every method raises SelatError: StatementError when rows are refused (the producer is of no more use then, except
    for DISK_FULL), ConnectionLost when the agent stays away too long; `flush` may be called again then.
    """

    def __init__(
        self, session: Session, stream: Relation, *, site: str, producer_id: str = "", first_sequence: int | None = None
    ) -> None:
        _check(stream, site, first_sequence)
        self._session = session
        self._stream = stream
        self._site = site
        self._id = producer_id or _new_id(session.security)
        self._schema = arrow_schema(stream.columns)
        self._lock = threading.RLock()
        self._call: _Call | None = None
        self._address = ""
        self._unacknowledged: deque[_Batch] = deque()
        self._unacknowledged_bytes = 0
        self._durable = 0
        self._refusal: SelatError | None = None
        self._totals = PushTotals()
        self._retry = Reconnect(session.waits.reconnect, f"push to {stream.name} at {site}")
        self._connected()
        self._next = self._durable + 1 if first_sequence is None else first_sequence

    @property
    def id(self) -> str:
        """The producer's id."""
        return self._id

    @property
    def site(self) -> str:
        """Where the rows go."""
        return self._site

    @property
    def stream(self) -> Relation:
        """The stream, as the master described it."""
        return self._stream

    @property
    def last_sequence(self) -> int:
        """The last batch of this id that is known to be on the site's disk; 0: none."""
        return self._durable

    @property
    def totals(self) -> PushTotals:
        """What became of what was sent so far."""
        return self._totals

    def send(self, rows: Pushable) -> None:
        """Sends an Arrow table or batch, a pandas DataFrame, a dict (one row), or a list of dicts.

        It is cut into batches of at most 100,000 rows and about 4 MiB. Batches up to `last_sequence` are not sent
        again. Waits while much is unacknowledged, as when the site's log is full. Raises InvalidArgument when rows
        cannot be sent.
        """
        table = to_table(rows, self._schema)
        with self._lock:
            for count, data in encoded_batches(table):
                self._send(_Batch(self._next, count, data))
                self._next += 1

    def flush(self) -> None:
        """Returns when everything that was sent is on the site's disk."""
        with self._lock:
            while self._unacknowledged:
                self._step()

    def finish(self) -> int:
        """Flushes, then ends the stream at this site for good: queries end after its last row. How many rows it had."""
        with self._lock:
            self.flush()
            while True:
                call = self._connected()
                timeout_s = self._session.waits.call.total_seconds()
                try:
                    return call.finish(self._stream.name, self._site, timeout_s=timeout_s)
                except grpc.RpcError as failure:
                    self._lost(to_error(failure, call.address))

    def close(self) -> None:
        """Flushes, then lets the connection go. Raises what `flush` raises; the connection is gone in any case."""
        try:
            self.flush()
        finally:
            self._disconnect()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.close()
        else:
            self._disconnect()

    def _send(self, batch: _Batch) -> None:
        if batch.sequence <= self._durable and not self._unacknowledged:
            self._count(batch, duplicate=True)
            return
        self._connected()
        self._unacknowledged.append(batch)
        self._unacknowledged_bytes += len(batch.data)
        if self._call is not None:
            self._call.send(batch)
        while (
            self._unacknowledged_bytes > MAX_UNACKNOWLEDGED_BYTES
            or len(self._unacknowledged) > MAX_UNACKNOWLEDGED_BATCHES
        ):
            self._step()

    def _step(self) -> None:
        """Receives one answer, after connecting again if need be."""
        call = self._connected()
        if not self._unacknowledged:
            # All of it was stored before the break, as the new call has said: no other answer will come.
            return
        try:
            response = call.receive()
        except grpc.RpcError as failure:
            self._lost(to_error(failure, call.address))
        except Unavailable as error:
            self._lost(error)
        else:
            self._retry.answered()
            self._take(response)

    def _take(self, response: ingest_pb2.PushResponse) -> None:
        if response.WhichOneof("message") == "waiting":
            logger.info("push to %s at %s waits: %s", self._stream.name, self._site, response.waiting.reason)
            return
        answer = response.acknowledge
        self._acknowledge(answer.sequence, duplicate=answer.duplicate)

    def _acknowledge(self, sequence: int, *, duplicate: bool) -> None:
        self._durable = max(self._durable, sequence)
        while self._unacknowledged and self._unacknowledged[0].sequence <= sequence:
            batch = self._unacknowledged.popleft()
            self._unacknowledged_bytes -= len(batch.data)
            self._count(batch, duplicate=duplicate)

    def _count(self, batch: _Batch, *, duplicate: bool) -> None:
        done = self._totals
        if duplicate:
            self._totals = replace(
                done, duplicates=done.duplicates + 1, duplicate_rows=done.duplicate_rows + batch.rows
            )
        else:
            self._totals = replace(
                done, batches=done.batches + 1, rows=done.rows + batch.rows, bytes=done.bytes + len(batch.data)
            )

    def _connected(self) -> _Call:
        """The running call, opened if need be, with all that is unacknowledged sent again."""
        if self._refusal is not None:
            raise self._refusal
        while self._call is None:
            try:
                self._call = self._open()
            except Unavailable as error:
                self._retry.failed(error)
        return self._call

    def _open(self) -> _Call:
        self._address = self._find_agent()
        opening = ingest_pb2.OpenPush(stream=self._stream.name, site=self._site, producer=self._id)
        call = _Call(self._address, opening, self._session.security)
        try:
            opened = call.receive().opened
        except grpc.RpcError as failure:
            call.close()
            raise self._judged(to_error(failure, self._address)) from None
        except BaseException:
            call.close()
            raise
        self._retry.answered()
        # A batch whose acknowledgement was lost was stored by this producer all the same.
        self._acknowledge(opened.last_sequence, duplicate=False)
        self._durable = opened.last_sequence
        for batch in self._unacknowledged:
            call.send(batch)
        return call

    def _lost(self, error: SelatError) -> None:
        """Handles a failed call: returns when it may be tried again, else raises the error."""
        self._disconnect()
        judged = self._judged(error)
        if not isinstance(judged, Unavailable):
            raise judged
        self._retry.failed(judged)

    def _judged(self, error: SelatError) -> SelatError:
        """Unavailable when the same may succeed later, else the error; final refusals are remembered."""
        if error.code == _NOT_THERE_YET:
            return self._whether_gone(error)
        if error.code in _FINAL:
            self._refusal = error
        if isinstance(error, Unavailable):
            message = f"the agent of site {self._site} at {self._address} does not answer"
            hint = f"is it running? selat site show {self._site}"
            return Unavailable(message, detail=Detail(hint=hint, ids={"site": self._site}))
        return error

    def _whether_gone(self, error: SelatError) -> SelatError:
        """A new stream takes a moment to reach its sites; the master knows one that was dropped."""
        request = catalog_pb2.GetRelationRequest(name=self._stream.name)
        try:
            relation = self._session.ask(self._session.catalog.GetRelation, request).relation
        except Unavailable:
            return Unavailable(error.message, detail=error.detail)
        except SelatError as gone:
            return gone
        if _is_pushed_to(relation, self._site):
            return Unavailable(error.message, detail=error.detail)
        return error

    def _find_agent(self) -> str:
        """Where the site's agent is now; where it was when the master does not answer."""
        try:
            found = self._session.ask(self._session.sites.GetSite, site_pb2.GetSiteRequest(name=self._site)).site
        except Unavailable:
            if self._address:
                return self._address
            raise
        if not found.address:
            hint = f"start it: selat agent --site {self._site}"
            raise Unavailable(f"site {self._site} has no agent yet", detail=Detail(hint=hint, ids={"site": self._site}))
        return found.address

    def _disconnect(self) -> None:
        if self._call is not None:
            self._call.close()
            self._call = None


def _new_id(security: Security) -> str:
    """The id of a producer without a name: under the name of the certificate, where there is one."""
    own = f"{security.identity.name.name}/" if security.identity is not None else ""
    return own + uuid.uuid4().hex


def _check(stream: Relation, site: str, first_sequence: int | None) -> None:
    bound = {b.site: b for b in stream.bindings}
    ids = {"stream": stream.name, "site": site}
    if site not in bound:
        raise NotFound(
            f"stream {stream.name} is not bound at {site!r}",
            detail=Detail(hint=f"it is bound at {', '.join(bound)}", ids=ids),
        )
    if bound[site].has_log is False:
        raise StatementError(
            f"nobody can push to stream {stream.name} at {site}: its connector there is "
            f"{bound[site].options.get('connector', '')!r}",
            detail=Detail(hint=f"declare it AT {site} WITH ('connector' = 'push')", ids=ids),
        )
    if first_sequence is not None and first_sequence < 1:
        raise InvalidArgument(f"first_sequence is {first_sequence}", detail=Detail(hint="the first batch is 1"))


def _is_pushed_to(relation: common_pb2.Relation, site: str) -> bool:
    """As far as the master says; the agent has the last word."""
    return any(b.site == site and (b.has_log or not b.HasField("has_log")) for b in relation.bindings)
