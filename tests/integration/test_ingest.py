"""Producers against a real IngestService: duplicates, gaps, races, restarts, a full log, a full disk, refused rows."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pandas as pd
import pyarrow as pa
import pytest

import selat
from selat.v1 import common_pb2, ingest_pb2, ingest_pb2_grpc
from tests.integration.fake_master import FakeMaster, wait_until
from tests.integration.ingest_site import IngestSite, orders, tell
from tests.unit.site_agent.ingest.disk import FullDisk

TS = pa.timestamp("us", tz="UTC")


@pytest.fixture
def disk() -> FullDisk:
    return FullDisk()


@pytest.fixture
def site(tmp_path: Path, disk: FullDisk) -> Iterator[IngestSite]:
    made = IngestSite(tmp_path / "us", files=disk)
    made.start()
    yield made
    made.close()


@pytest.fixture
def master(site: IngestSite) -> Iterator[FakeMaster]:
    fake = FakeMaster()
    tell(fake, site)
    fake.start()
    yield fake
    fake.stop()


@pytest.fixture
def client(master: FakeMaster) -> Iterator[selat.Client]:
    with selat.connect(master.address, reconnect=timedelta(seconds=20)) as connected:
        yield connected


def rows(*ids: int, **columns: Any) -> pa.Table:
    plain = {
        "id": pa.array(ids, pa.int64()),
        "amount": pa.array([i / 2 for i in ids], pa.float64()),
        "name": pa.array([f"n{i}" for i in ids], pa.string()),
        "ts": pa.array([i * 1_000_000 for i in ids], TS),
    }
    return pa.table({**plain, **columns})


def encoded(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue())


def raw_push(site: IngestSite, *requests: ingest_pb2.PushRequest) -> list[ingest_pb2.PushResponse]:
    with grpc.insecure_channel(site.address) as channel:
        stub = ingest_pb2_grpc.IngestServiceStub(channel)
        return list(stub.Push(iter(requests), timeout=20))


def opening(producer: str = "p", stream: str = "orders", site: str = "us") -> ingest_pb2.PushRequest:
    return ingest_pb2.PushRequest(open=ingest_pb2.OpenPush(stream=stream, site=site, producer=producer))


def batch(sequence: int, table: pa.Table) -> ingest_pb2.PushRequest:
    return ingest_pb2.PushRequest(batch=ingest_pb2.PushBatch(sequence=sequence, arrow_stream=encoded(table)))


def refusal(site: IngestSite, *requests: ingest_pb2.PushRequest) -> tuple[grpc.StatusCode, common_pb2.ErrorDetail]:
    with pytest.raises(grpc.RpcError) as caught:
        raw_push(site, *requests)
    assert isinstance(caught.value, grpc.Call)
    trailer = dict(caught.value.trailing_metadata() or ())
    return caught.value.code(), common_pb2.ErrorDetail.FromString(trailer["selat-error-bin"])


def test_everything_that_holds_rows_can_be_sent(client: selat.Client, site: IngestSite) -> None:
    instant = datetime(2026, 1, 1, tzinfo=UTC)
    with client.push("orders", "us") as producer:
        producer.send(rows(1, 2))
        producer.send(rows(3).to_batches()[0])
        producer.send({"id": 4, "ts": "2026-01-01T00:00:00Z"})
        producer.send([{"ID": 5, "name": None, "ts": instant}, {"id": 6, "amount": 1, "ts": instant}])
        producer.send(pd.DataFrame({"id": [7], "amount": [0.5], "name": ["x"], "ts": [instant]}))
        producer.flush()
        assert producer.last_sequence == 5
    assert site.rows() == [1, 2, 3, 4, 5, 6, 7]
    assert site.rows("ts")[3] == instant
    assert (producer.totals.rows, producer.totals.batches, producer.totals.duplicates) == (7, 5, 0)


def test_a_producer_goes_on_after_its_last_batch_or_begins_again(client: selat.Client, site: IngestSite) -> None:
    with client.push("orders", "us", producer_id="p") as first:
        first.send(rows(1))
    with client.push("orders", "us", producer_id="p") as second:
        assert second.last_sequence == 1
        second.send(rows(2))
    with client.push("orders", "us", producer_id="p", first_sequence=1) as again:
        for number in (1, 2, 3):
            again.send(rows(number))
    assert site.rows() == [1, 2, 3]
    assert (again.totals.duplicates, again.totals.rows) == (2, 1)


def test_a_gap_is_refused_with_what_was_expected(site: IngestSite) -> None:
    raw_push(site, opening(), batch(1, rows(1)))
    status, detail = refusal(site, opening(), batch(3, rows(3)))
    assert (status, detail.code) == (grpc.StatusCode.FAILED_PRECONDITION, "SEQUENCE_GAP")
    assert detail.ids["expected_sequence"] == "2"
    assert site.rows() == [1]


def test_a_known_batch_is_acknowledged_again(site: IngestSite) -> None:
    requests = (opening(), batch(1, rows(1)), batch(2, rows(2)))
    raw_push(site, *requests)
    opened, *answers = raw_push(site, *requests)
    assert opened.opened.last_sequence == 2
    assert [c.name for c in opened.opened.columns] == ["id", "amount", "name", "ts"]
    assert [(a.acknowledge.sequence, a.acknowledge.duplicate) for a in answers] == [(1, True), (2, True)]
    assert site.rows() == [1, 2]


def test_two_connections_with_one_producer_store_each_batch_once(client: selat.Client, site: IngestSite) -> None:
    def send() -> None:
        with client.push("orders", "us", producer_id="twin", first_sequence=1) as producer:
            for number in range(40):
                producer.send(rows(number))

    threads = [threading.Thread(target=send) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert site.rows() == list(range(40))


def test_a_producer_sends_again_what_a_restart_swallowed(client: selat.Client, site: IngestSite) -> None:
    with client.push("orders", "us") as producer:
        for number in range(30):
            producer.send(rows(number))
            if number in (10, 20):
                site.stop()
                site.start()
    assert site.rows() == list(range(30))
    assert producer.totals.rows == 30


@pytest.mark.timeout(60)
def test_flush_returns_when_a_break_swallowed_only_the_acknowledgement(client: selat.Client, site: IngestSite) -> None:
    producer = client.push("orders", "us", producer_id="p", first_sequence=1)
    site.stop()
    producer.send(rows(1))
    site.start()
    # What the producer does not know: its batch is stored.
    raw_push(site, opening("p"), batch(1, rows(1)))
    producer.flush()
    assert producer.last_sequence == 1
    producer.send(rows(2))
    producer.close()
    assert client.push("orders", "us").finish() == 2


def test_a_new_stream_is_waited_for_and_a_dropped_one_is_not(
    client: selat.Client, site: IngestSite, master: FakeMaster
) -> None:
    site.assign()
    timer = threading.Timer(0.3, lambda: site.assign(orders()))
    timer.start()
    with client.push("orders", "us") as producer:
        producer.send(rows(1))
    assert site.rows() == [1]

    producer = client.push("orders", "us")
    producer.send(rows(2))
    producer.flush()
    del master.relations["orders"]
    site.assign()
    producer.send(rows(3))
    with pytest.raises(selat.NotFound, match="no relation orders"):
        producer.close()
    assert list((site.directory / "ingest").iterdir()) == []


def test_a_full_log_makes_pushes_wait_and_loses_nothing(client: selat.Client, site: IngestSite) -> None:
    site.assign(orders(retention_bytes="1000"), readers=["q.s1.us"])
    done = threading.Event()

    def send() -> None:
        with client.push("orders", "us") as producer:
            for number in range(10):
                producer.send(rows(number))
        done.set()

    thread = threading.Thread(target=send)
    thread.start()
    seen: list[int] = []
    while not done.is_set():
        log = site.log
        first = len(seen)
        if log.kept.next_record > first:
            seen += log.kept.read(first, log.kept.next_record, ["id"]).column("id").to_pylist()
            assert not done.is_set() or len(seen) == 10
            log.room.advance("q.s1.us", len(seen))
        done.wait(0.02)
    thread.join(30)
    log = site.log
    if log.kept.next_record > len(seen):
        seen += log.kept.read(len(seen), log.kept.next_record, ["id"]).column("id").to_pylist()
    assert seen == list(range(10))


def test_a_waiting_push_is_told_why(site: IngestSite) -> None:
    site.assign(orders(retention_bytes="600"), readers=["q.s1.us"])
    held: list[ingest_pb2.PushResponse] = []

    def send() -> None:
        batches = (batch(n, rows(n)) for n in range(1, 4))
        held.extend(raw_push(site, opening(), *batches))

    thread = threading.Thread(target=send)
    thread.start()
    wait_until(lambda: site.log.kept.next_record >= 1)
    with grpc.insecure_channel(site.address) as channel:
        stub = ingest_pb2_grpc.IngestServiceStub(channel)
        calls = stub.Push(iter([opening("other"), batch(1, rows(9))]), timeout=20)
        notices = (response for response in calls if response.WhichOneof("message") == "waiting")
        notice = next(notices)
        assert "q.s1.us" in notice.waiting.reason
        site.assign(orders(retention_bytes="1000000"), readers=["q.s1.us"])
        thread.join(20)
        assert list(notices) == []
    assert sorted(site.rows()) == [1, 2, 3, 9]


def test_a_full_disk_is_said_and_flush_may_be_called_again(
    client: selat.Client, site: IngestSite, disk: FullDisk
) -> None:
    with client.push("orders", "us") as producer:
        producer.send(rows(1))
        producer.flush()
        disk.free_bytes = 10
        producer.send(rows(2))
        with pytest.raises(selat.StatementError) as caught:
            producer.flush()
        assert caught.value.code == "DISK_FULL"
        disk.free_bytes = None
        producer.flush()
    assert site.rows() == [1, 2]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (rows(1).drop_columns(["name"]), "column name STRING is missing"),
        (rows(1).append_column("x", pa.array([1])), "the stream has no column x (int64)"),
        (rows(1, id=pa.array(["1"])), "column id is BIGINT, the batch has string"),
        (rows(1, id=pa.array([1.5])), "column id is BIGINT, and a value does not fit"),
    ],
    ids=["missing", "unknown", "type", "value"],
)
def test_rows_that_do_not_fit_are_refused_whole(
    client: selat.Client, site: IngestSite, table: pa.Table, message: str
) -> None:
    with pytest.raises(selat.StatementError, match="column") as caught, client.push("orders", "us") as producer:
        producer.send(table)
    assert caught.value.code == "SCHEMA_MISMATCH"
    assert message in caught.value.message
    assert site.log.kept.next_record == 0


def test_an_ended_stream_takes_no_more(client: selat.Client, site: IngestSite) -> None:
    with client.push("orders", "us", producer_id="p") as producer:
        producer.send(rows(1, 2))
        assert (producer.finish(), producer.finish()) == (2, 2)
        producer.send(rows(3))
        with pytest.raises(selat.StatementError) as caught:
            producer.flush()
        assert caught.value.code == "STREAM_ENDED"
        producer._unacknowledged.clear()
    with grpc.insecure_channel(site.address) as channel:
        request = ingest_pb2.GetProducerRequest(stream="orders", site="us", producer="p")
        state = ingest_pb2_grpc.IngestServiceStub(channel).GetProducer(request)
    assert (state.last_sequence, state.ended) == (1, True)


@pytest.mark.parametrize(
    ("requests", "code"),
    [
        ((batch(1, rows(1)),), "INVALID_PUSH"),
        ((opening(""),), "INVALID_PUSH"),
        ((opening("a b"),), "INVALID_PUSH"),
        ((opening(stream=""),), "INVALID_PUSH"),
        ((opening(stream="visits"),), "UNKNOWN_STREAM"),
        ((opening(site="eu"),), "UNKNOWN_STREAM"),
        ((opening(), opening()), "INVALID_PUSH"),
        ((opening(), batch(0, rows(1))), "INVALID_PUSH"),
        ((opening(), ingest_pb2.PushRequest(batch=ingest_pb2.PushBatch(sequence=1))), "INVALID_PUSH"),
        ((opening(), batch(1, pa.table({"id": list(range(1_000_001))}))), "INVALID_PUSH"),
    ],
    ids=["no-opening", "no-producer", "producer", "no-stream", "stream", "site", "twice", "zero", "no-arrow", "large"],
)
def test_what_makes_no_sense_is_refused(
    site: IngestSite, requests: tuple[ingest_pb2.PushRequest, ...], code: str
) -> None:
    assert refusal(site, *requests)[1].code == code


def test_wrong_options_are_told_to_who_pushes(client: selat.Client, site: IngestSite) -> None:
    site.assign()
    site.assign(orders(retention="soon"))
    with pytest.raises(selat.StatementError, match="option 'retention' is 'soon'"):
        client.push("orders", "us")


def test_who_may_not_be_pushed_to_is_said(client: selat.Client) -> None:
    with pytest.raises(selat.NotFound, match="not bound at 'asia'"):
        client.push("orders", "asia")
    with pytest.raises(selat.StatementError, match="its connector there is 'files'"):
        client.push("orders", "eu")
    with pytest.raises(selat.NotFound, match="no relation visits"):
        client.push("visits", "us")
    with pytest.raises(selat.InvalidArgument, match="first_sequence"):
        client.push("orders", "us", first_sequence=0)
