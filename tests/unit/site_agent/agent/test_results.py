from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.tasks import ReadFrom
from site_agent.agent.results import ResultKeeper, kept_from
from site_agent.base.errors import TrimmedEpochError
from site_agent.channels.log import ChannelLog
from site_agent.channels.manifest import EndMark, Fork, Standing
from site_agent.tasks.spec import InputSpec, ResultsLimit, ResultSpec
from tests.unit.site_agent.fakes import TableEngine
from tests.unit.site_agent.tasks.batch import BatchSite

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
AGES = timedelta(days=7)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[BatchSite]:
    made = BatchSite(tmp_path, TableEngine({}))
    yield made
    await made.close()


def rows(epoch: int) -> pa.Table:
    return pa.table({"n": [epoch]})


def write(log: ChannelLog, hours_ago: float) -> None:
    """Publish the next epoch, as if it were written so many hours ago."""
    epoch = log.next_epoch
    log.publish(epoch, rows(epoch), watermark_us=None)
    at_s = (NOW - timedelta(hours=hours_ago)).timestamp()
    os.utime(sorted(log.directory.glob("*.epoch"))[-1], (at_s, at_s))


def spec(limit: ResultsLimit | None, *channels: str) -> ResultSpec:
    return ResultSpec("q", tuple(InputSpec(name, "hub", "") for name in channels), limit)


async def test_what_is_older_than_the_limit_goes_but_never_the_newest_epoch(site: BatchSite) -> None:
    log = site.channel("a", ends=False)
    keeper = ResultKeeper(site.router)
    await keeper.apply([spec(ResultsLimit(2**40, timedelta(hours=10)), "a")])
    for hours_ago in (30, 20, 11, 9, 1):
        write(log, hours_ago)

    await keeper.trim(NOW)
    assert (log.first_epoch, log.next_epoch) == (3, 5)
    with pytest.raises(TrimmedEpochError) as gone:
        log.epochs.read(2)
    assert gone.value.ids["first_epoch"] == "3"

    await keeper.trim(NOW + timedelta(days=400))
    assert (log.first_epoch, log.next_epoch) == (4, 5)


async def test_a_producer_does_not_wait_for_what_is_kept(site: BatchSite) -> None:
    log = site.channel("a", ends=False)
    keeper = ResultKeeper(site.router)
    await keeper.apply([spec(ResultsLimit(2**40, AGES), "a")])
    for _ in range(5):
        write(log, 1)
    assert log.readers.awaited_bytes == 0
    await keeper.trim(NOW)
    assert (log.first_epoch, log.readers.awaited_bytes) == (0, 0)


async def test_beyond_the_bytes_the_oldest_epochs_of_all_channels_go(site: BatchSite) -> None:
    logs = {name: site.channel(name, ends=False) for name in "ab"}
    keeper = ResultKeeper(site.router)
    for hours_ago in range(20, 10, -1):
        write(logs["a" if hours_ago % 5 else "b"], hours_ago)
    # Epochs differ by some bytes.
    limit_bytes = sum(log.epochs.retained_bytes for log in logs.values()) // 2 + 50
    await keeper.apply([spec(ResultsLimit(limit_bytes, AGES), "a", "b")])

    await keeper.trim(NOW)
    # Hours 20 and 15 are of b, of which the newest stays.
    assert logs["b"].first_epoch == 1
    assert sum(log.epochs.retained_bytes for log in logs.values()) <= limit_bytes
    assert logs["a"].first_epoch == 4


async def test_without_a_limit_all_is_kept(site: BatchSite) -> None:
    log = site.channel("a", ends=False)
    keeper = ResultKeeper(site.router)
    await keeper.apply([spec(ResultsLimit(1, timedelta(0)), "a")])
    await keeper.apply([spec(None, "a")])
    for _ in range(3):
        write(log, 1000)
    await keeper.trim(NOW)
    assert log.first_epoch == 0


async def test_what_went_stays_gone_after_a_restart_and_trimming_goes_on(tmp_path: Path) -> None:
    limit = ResultsLimit(2**40, timedelta(hours=10))
    first = BatchSite(tmp_path, TableEngine({}))
    log = first.channel("a", ends=False)
    keeper = ResultKeeper(first.router)
    await keeper.apply([spec(limit, "a")])
    for hours_ago in (30, 20, 9, 8):
        write(log, hours_ago)
    await keeper.trim(NOW)
    await first.close()

    again = BatchSite(tmp_path, TableEngine({}))
    keeper = ResultKeeper(again.router)
    await keeper.apply([spec(limit, "a")])
    log = again.store.get("a")
    assert (log.first_epoch, log.next_epoch) == (2, 4)
    write(log, 0)
    await keeper.trim(NOW + timedelta(hours=1.5))
    assert (log.first_epoch, log.next_epoch) == (3, 5)
    await again.close()


async def test_results_go_on_in_the_channel_that_continues_another(site: BatchSite) -> None:
    old, new = (site.channel(name, ends=False) for name in ("q.m1", "q.m1.g1"))
    keeper = ResultKeeper(site.router)

    def told() -> tuple[int, bool, int | None]:
        (status,) = keeper.statuses()
        return status.rows, status.complete, status.watermark_us

    await keeper.apply([spec(None, old.id, new.id)])
    old.publish(0, rows(0), watermark_us=10)
    assert told() == (1, False, 10)
    old.finish_as(EndMark(0, new.id, "hub", 10))
    assert told() == (1, False, 10)
    new.begin_at(1, standing=Standing(1, 10))
    assert told() == (1, False, 10)
    new.publish(1, rows(1), watermark_us=20)
    assert told() == (2, False, 20)
    new.finish()
    assert told() == (2, True, 20)
    # The end of the results is not here as long as the channel that has them is not kept.
    await keeper.apply([spec(None, old.id)])
    assert told() == (1, False, 10)


async def test_results_of_one_query_go_on_in_a_channel_of_its_own(site: BatchSite) -> None:
    old, new, own = (site.channel(name, ends=False) for name in ("q.m1", "q.m1.g1", "q2.m1.g1"))
    keeper = ResultKeeper(site.router)
    inputs = {"q": (old.id, new.id), "q2": (old.id, own.id)}
    await keeper.apply([replace(spec(None, *channels), query_id=query) for query, channels in inputs.items()])

    def told() -> list[tuple[int, bool, int | None]]:
        return [(status.rows, status.complete, status.watermark_us) for status in keeper.statuses()]

    old.publish(0, rows(0), watermark_us=10)
    assert told() == [(1, False, 10)] * 2
    old.finish_as(EndMark(0, new.id, "hub", 10, fork=Fork("q2", own.id, "hub")))
    for log in (new, own):
        log.begin_at(1, standing=Standing(1, 10))
    own.publish(1, rows(1), watermark_us=20)
    assert told() == [(1, False, 10), (2, False, 20)]
    own.finish()
    new.publish(1, rows(1), watermark_us=30)
    assert told() == [(2, False, 30), (2, True, 20)]


async def test_a_channel_that_continues_another_misses_nothing_before_it(site: BatchSite) -> None:
    old, new = (site.channel(name, ends=False) for name in ("q.m1", "q.m1.g1"))
    keeper = ResultKeeper(site.router)
    inputs = tuple(InputSpec(log.id, "hub", "", read_from=ReadFrom.OLDEST) for log in (old, new))
    await keeper.apply([ResultSpec("q", inputs)])
    old.publish(0, rows(0), watermark_us=10)
    old.finish_as(EndMark(0, new.id, "hub", 10))
    new.begin_at(1)
    new.publish(1, rows(1), watermark_us=20)
    (status,) = keeper.statuses()
    assert status.starts_at_us is None


async def test_another_reader_of_the_channel_keeps_what_it_has_not_read(site: BatchSite) -> None:
    log = site.channel("a", ends=False)
    keeper = ResultKeeper(site.router)
    await keeper.apply([spec(ResultsLimit(2**40, timedelta(hours=1)), "a")])
    await site.router.subscribe("a", "hub", "slow")
    for _ in range(4):
        write(log, 5)
    await keeper.trim(NOW)
    assert log.first_epoch == 0
    site.router.acknowledge("a", "slow", 1)
    assert log.first_epoch == 2


@given(
    ages=st.lists(st.lists(st.integers(0, 20), max_size=6), min_size=1, max_size=3),
    limit=st.integers(0, 60),
    hours=st.integers(0, 20),
)
def test_exactly_the_oldest_go(ages: list[list[int]], limit: int, hours: int) -> None:
    """Against one list of all epochs, sorted by age."""
    logs = {f"c{number}": FakeEpochs(sorted(of, reverse=True)) for number, of in enumerate(ages)}
    found = kept_from(logs, dict.fromkeys(logs, 0), ResultsLimit(limit, timedelta(hours=hours)), NOW)  # type: ignore[arg-type]
    assert dict(found) == oldest_first(logs, limit, hours)


class FakeEpochs:
    """Epochs of ten bytes, by how old they are in hours."""

    first = 0

    def __init__(self, hours_ago: list[int]) -> None:
        self.hours_ago = hours_ago
        self.next = len(hours_ago)

    def bytes_from(self, epoch: int) -> int:
        return 10 * (self.next - epoch)

    def stored_bytes(self, _: int) -> int:
        return 10

    def written_at(self, epoch: int) -> datetime:
        return NOW - timedelta(hours=self.hours_ago[epoch])


def oldest_first(logs: Mapping[str, FakeEpochs], limit: int, hours: int) -> dict[str, int]:
    epochs = [(-at, name, epoch) for name, log in logs.items() for epoch, at in enumerate(log.hours_ago[:-1])]
    left = 10 * sum(log.next for log in logs.values())
    kept: dict[str, int] = {}
    for minus_age, name, epoch in sorted(epochs):
        if left <= limit and -minus_age < hours:
            break
        left -= 10
        kept[name] = epoch + 1
    return kept
