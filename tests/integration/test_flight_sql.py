"""The methods of Flight SQL against a real master with stand-ins for the agents: who may call, and what is refused."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc.aio
import pyarrow as pa
import pyarrow.flight as client
import pytest

from master.flight.commands import packed, unpacked
from master.flight.protocol import flight_sql_pb2 as sql
from master.flight.server import serving_flights
from master.flight.service import SERVICE
from tests.integration.checked_master import Checked
from tests.integration.master_cluster import CREATE, FILTER, Cluster, running_cluster

pytestmark = pytest.mark.timeout(60)


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as found:
        yield found


async def served(cluster: Cluster, stack: AsyncExitStack) -> str:
    address = await stack.enter_async_context(serving_flights(cluster.master.flight_parts(), "127.0.0.1:0", None))
    return f"grpc://{address}"


@pytest.fixture
async def url(tmp_path: Path, stack: AsyncExitStack) -> str:
    cluster = await stack.enter_async_context(running_cluster(tmp_path / "master"))
    await cluster.execute(CREATE)
    return await served(cluster, stack)


async def asked(url: str, ask: Callable[[client.FlightClient, client.FlightCallOptions], Any], token: str = "") -> Any:
    """Return what a client in a thread of its own gets."""
    headers = [(b"authorization", f"Bearer {token}".encode())] if token else []

    def run() -> Any:
        with client.connect(url) as connection:
            return ask(connection, client.FlightCallOptions(timeout=20, headers=headers))

    return await asyncio.to_thread(run)


def fetched(message: Any) -> Callable[[client.FlightClient, client.FlightCallOptions], pa.Table]:
    """Return how a command's rows are fetched: their columns are said before."""

    def ask(connection: client.FlightClient, options: client.FlightCallOptions) -> pa.Table:
        info = connection.get_flight_info(client.FlightDescriptor.for_command(packed(message)), options)
        (endpoint,) = info.endpoints
        table = connection.do_get(endpoint.ticket, options).read_all()
        assert table.schema == info.schema
        return table

    return ask


def described(message: Any) -> Callable[[client.FlightClient, client.FlightCallOptions], pa.Schema]:
    """Return how the columns of a command are asked for."""
    descriptor = client.FlightDescriptor.for_command(packed(message))
    return lambda connection, options: connection.get_schema(descriptor, options).schema


def updated(message: Any, rows: pa.RecordBatch | None = None) -> Callable[..., bytes]:
    def ask(connection: client.FlightClient, options: client.FlightCallOptions) -> bytes:
        schema = pa.schema([]) if rows is None else rows.schema
        descriptor = client.FlightDescriptor.for_command(packed(message))
        writer, reader = connection.do_put(descriptor, schema, options)
        if rows is not None:
            writer.write_batch(rows)
        writer.done_writing()
        told = reader.read()
        writer.close()
        return told.to_pybytes() if told is not None else b""

    return ask


def prepared(text: str) -> Callable[..., sql.ActionCreatePreparedStatementResult]:
    def ask(
        connection: client.FlightClient, options: client.FlightCallOptions
    ) -> sql.ActionCreatePreparedStatementResult:
        body = packed(sql.ActionCreatePreparedStatementRequest(query=text))
        (result,) = connection.do_action(client.Action("CreatePreparedStatement", body), options)
        made = sql.ActionCreatePreparedStatementResult()
        made.ParseFromString(_value(result.body.to_pybytes()))
        return made

    return ask


def _value(data: bytes) -> bytes:
    from google.protobuf.any_pb2 import Any as AnyMessage

    return bytes(AnyMessage.FromString(data).value)


async def test_statements_that_are_no_queries(url: str) -> None:
    shown = await asked(url, fetched(sql.CommandStatementQuery(query="SHOW STREAMS")))
    assert shown.column(0).to_pylist() == ["clicks"]
    result = sql.DoPutUpdateResult.FromString(
        await asked(url, updated(sql.CommandStatementUpdate(query="CREATE VIEW v AS SELECT page FROM clicks")))
    )
    assert result.record_count == -1
    made = await asked(url, prepared("DROP VIEW v"))
    assert made.dataset_schema == b""
    # To run it twice with values would be two statements; it has none.
    handle = made.prepared_statement_handle
    await asked(url, updated(sql.CommandPreparedStatementUpdate(prepared_statement_handle=handle)))
    tables = await asked(url, fetched(sql.CommandGetTables()))
    assert tables["table_name"].to_pylist() == ["clicks"]


async def test_a_prepared_query_has_columns_and_takes_values(url: str) -> None:
    made = await asked(url, prepared(FILTER))
    assert pa.ipc.read_schema(pa.py_buffer(made.dataset_schema)).names == ["user_id", "page"]
    made = await asked(url, prepared("SELECT page FROM clicks WHERE user_id = ?"))
    assert pa.ipc.read_schema(pa.py_buffer(made.parameter_schema)).names == ["1"]
    command = sql.CommandPreparedStatementQuery(prepared_statement_handle=made.prepared_statement_handle)
    told = await asked(url, updated(command, pa.record_batch({"1": [7]})))
    bound = sql.DoPutPreparedStatementResult.FromString(told).prepared_statement_handle
    command = sql.CommandPreparedStatementQuery(prepared_statement_handle=bound)
    assert (await asked(url, described(command))).names == ["page"]
    # Other values take the place of those that it has.
    assert await asked(url, updated(command, pa.record_batch({"1": [8]})))
    with pytest.raises(pa.ArrowInvalid, match="2 rows of values are given for a query"):
        await asked(url, updated(command, pa.record_batch({"1": [7, 8]})))


@pytest.mark.parametrize(
    ("message", "error", "said"),
    [
        (sql.CommandStatementQuery(query="SELECT x FROM clicks"), pa.ArrowInvalid, "UNKNOWN_COLUMN.*line 1, column 8"),
        (sql.CommandStatementQuery(query="SELECT page FROM nowhere"), KeyError, "nowhere"),
        (sql.CommandStatementQuery(query=""), pa.ArrowInvalid, "no statement"),
        (sql.CommandStatementQuery(query="DROP VIEW v; SELECT page FROM clicks"), pa.ArrowInvalid, "one at a time"),
        (sql.CommandPreparedStatementQuery(prepared_statement_handle=b"x"), pa.ArrowInvalid, "no such statement"),
        (sql.CommandStatementUpdate(query="SHOW STREAMS"), pa.ArrowInvalid, "has no rows"),
    ],
)
async def test_what_is_refused(url: str, message: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        await asked(url, fetched(message))


async def test_tickets_actions_passwords_and_puts_that_are_none(url: str) -> None:
    other = packed(sql.CommandStatementUpdate(query="SELECT 1"))
    with pytest.raises(pa.ArrowInvalid, match="no ticket"):
        await asked(url, lambda c, o: c.do_get(client.Ticket(other), o).read_all())
    with pytest.raises(pa.ArrowInvalid, match="no action"):
        await asked(url, lambda c, o: list(c.do_action(client.Action("BeginTransaction", other), o)))
    with pytest.raises(pa.ArrowInvalid, match="callers have no passwords"):
        await asked(url, lambda c, o: c.authenticate_basic_token(b"me", b"secret", o))
    with pytest.raises(pa.ArrowInvalid, match="cannot be put there"):
        await asked(url, updated(sql.CommandGetCatalogs()))
    assert await asked(url, lambda c, o: list(c.list_flights(options=o))) == []
    actions = await asked(url, lambda c, o: [action.type for action in c.list_actions(o)])
    assert actions == ["CreatePreparedStatement", "ClosePreparedStatement"]
    body = packed(sql.ActionClosePreparedStatementRequest(prepared_statement_handle=b"x"))
    assert await asked(url, lambda c, o: list(c.do_action(client.Action("ClosePreparedStatement", body), o))) == []
    assert isinstance(unpacked(body), sql.ActionClosePreparedStatementRequest)


async def test_a_put_of_nothing_is_refused(url: str) -> None:
    """Clients of Arrow send a descriptor always: this one calls the method by itself."""
    async with grpc.aio.insecure_channel(url.removeprefix("grpc://")) as channel:
        call = channel.stream_stream(f"/{SERVICE}/DoPut", None, None)(iter(()), timeout=20)
        with pytest.raises(grpc.aio.AioRpcError, match="named by a command"):
            await call.read()


async def test_callers_need_tokens_and_rights(tmp_path: Path, stack: AsyncExitStack) -> None:
    checked = Checked(tmp_path, stack)
    await checked.start()
    await checked.start_agents()
    stack.push_async_callback(checked.cluster.stop_master)
    await checked.execute("operator", CREATE)
    url = await served(checked.cluster, stack)
    show = sql.CommandStatementQuery(query="SHOW STREAMS")
    drop = sql.CommandStatementUpdate(query="DROP STREAM clicks")
    with pytest.raises(client.FlightUnauthenticatedError, match="token"):
        await asked(url, fetched(show))
    with pytest.raises(client.FlightUnauthenticatedError, match="token"):
        await asked(url, updated(drop))
    assert (await asked(url, fetched(show), checked.tokens["reader"])).num_rows == 1
    tables = await asked(url, fetched(sql.CommandGetTables()), checked.tokens["reader"])
    assert tables["table_name"].to_pylist() == ["clicks"]
    with pytest.raises(client.FlightUnauthorizedError, match="right to"):
        await asked(url, fetched(sql.CommandStatementQuery(query=FILTER)), checked.tokens["reader"])
    with pytest.raises(client.FlightUnauthorizedError, match="stream clicks is operator's"):
        await asked(url, updated(drop), checked.tokens["submitter"])
    await asked(url, updated(drop), checked.tokens["operator"])
    told = [line for line in checked.audit_log.read_text().splitlines() if "DoPut" in line]
    assert len(told) == 3
