from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from site_agent.base.errors import ConnectorError, CorruptLogError, SequenceGapError, UnknownStreamError
from site_agent.engine import Field
from site_agent.ingest import Acknowledged, Push, PushedStream, StreamLog
from site_agent.ingest.streams import PushStreams
from tests.unit.site_agent.ingest.logs import push

CREATED = datetime(2026, 1, 1, tzinfo=UTC)


class FrozenClock:
    """Nobody wakes who sleeps."""

    def now(self) -> datetime:
        return CREATED

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, seconds: float) -> None:
        await asyncio.Event().wait()


def stream(
    name: str = "Orders", created_at: datetime = CREATED, readers: tuple[str, ...] = (), **options: str
) -> PushedStream:
    return PushedStream(name, (Field("v", "BIGINT"),), {"connector": "push", **options}, created_at, readers)


@pytest.fixture
async def streams(tmp_path: Path) -> AsyncIterator[PushStreams]:
    made = PushStreams("us", tmp_path, clock=FrozenClock())
    yield made
    await made.close()


def directories(root: Path) -> list[str]:
    return sorted(p.name for p in (root / "ingest").iterdir())


async def test_a_stream_is_taken_from_its_assignment_until_it_is_dropped(streams: PushStreams, tmp_path: Path) -> None:
    await streams.apply([stream()])
    intake = streams.intake("orders", "us")
    assert await intake.submit(push("a", 1)) == Acknowledged(1, 1)
    await streams.apply([stream(readers=("q.s1.us",))])
    assert streams.intake("ORDERS", "us") is intake

    await streams.apply([])
    assert directories(tmp_path) == []
    with pytest.raises(UnknownStreamError):
        streams.intake("orders", "us")
    with pytest.raises(UnknownStreamError):
        streams.log("Orders", CREATED)
    with pytest.raises(UnknownStreamError):
        await intake.submit(push("a", 2))


async def test_what_the_logs_keep_is_told(streams: PushStreams) -> None:
    wrong = stream("bad", retention="long")
    await streams.apply([stream(retention_bytes="1000000"), wrong])
    await streams.intake("orders", "us").submit(push("a", 1))
    await streams.intake("orders", "us").submit(push("a", 2))

    bad, orders = await asyncio.to_thread(streams.use)
    assert (bad.stream, bad.size_bytes, bad.rows, bad.reason) == ("bad", 0, 0, "option 'retention' is 'long'")
    log = streams.log("Orders", CREATED)
    assert orders == StreamLog(
        "Orders", size_bytes=log.kept.size_bytes, rows=2, batches=2, rows_stored=2, limit_bytes=1_000_000
    )
    assert orders.size_bytes > 0


async def test_a_stream_that_was_created_anew_is_another(streams: PushStreams, tmp_path: Path) -> None:
    await streams.apply([stream()])
    await streams.intake("orders", "us").submit(push("a", 1))
    again = stream(created_at=CREATED + timedelta(seconds=1))
    await streams.apply([again])
    with pytest.raises(SequenceGapError):
        await streams.intake("orders", "us").submit(push("a", 2))
    assert len(directories(tmp_path)) == 1


async def test_what_was_dropped_while_the_agent_was_away_goes(streams: PushStreams, tmp_path: Path) -> None:
    (tmp_path / "ingest" / "visits-1").mkdir(parents=True)
    await streams.apply([stream()])
    assert directories(tmp_path) == ["orders-1767225600000000"]


async def test_pushes_wait_for_room_and_go_on_with_a_larger_budget(streams: PushStreams) -> None:
    await streams.apply([stream(retention_bytes="600", readers=("q.s1.us",))])
    intake = streams.intake("orders", "us")
    answers = [intake.submit(push("a", n)) for n in range(1, 9)]
    await answers[0]
    while not intake.waiting:
        await asyncio.sleep(0.001)
    assert not answers[-1].done()
    assert "q.s1.us" in intake.waiting
    dropped = intake.submit(Push("gone", 1, None))
    dropped.cancel()

    await streams.apply([stream(retention_bytes="100000", readers=("q.s1.us",))])
    assert [(await a).rows for a in answers] == [1] * 8
    assert intake.log.last_sequence("gone") == 0


async def test_one_damaged_or_wrong_stream_leaves_the_others_alone(streams: PushStreams, tmp_path: Path) -> None:
    await streams.apply([stream("a"), stream("b", retention="never")])
    with pytest.raises(ConnectorError, match="'retention'"):
        streams.intake("b", "us")
    await streams.intake("a", "us").submit(push("p", 1))
    await streams.apply([stream("b")])
    assert streams.intake("b", "us").log.kept.next_record == 0

    await streams.intake("b", "us").submit(push("p", 1))
    await streams.close()
    (segment,) = tmp_path.glob("ingest/b-*/*.segment")
    segment.write_bytes(segment.read_bytes()[:-1])
    later = PushStreams("us", tmp_path, clock=FrozenClock())
    await later.apply([stream("a"), stream("b")])
    with pytest.raises(CorruptLogError, match=segment.name):
        later.log("b", CREATED)
    assert later.intake("a", "us").log.kept.next_record == 0
    await later.close()
