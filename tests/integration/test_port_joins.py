"""Ports that join a channel in the middle: not at all, or from where it is whole."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

import pytest

from contract.tasks import ReadFrom
from site_agent.agent.results import ResultKeeper
from site_agent.port import PortInput
from site_agent.tasks.spec import InputSpec, ResultSpec
from tests.integration.exchange_sites import Site, eventually, numbers, sites
from tests.integration.test_port import next_batch, port_at, values

pytestmark = pytest.mark.timeout(60)

FIRST, LATER = "q.s.jfk", "q.s.ewr"


async def trimmed(site: Site, channel: str, *, epochs: int, watermark_us: int = 100) -> None:
    """A channel of the site of which a reader has let everything go."""
    log = site.store.open(channel)
    log.set_consumers([site.name])
    async with port_at(site, "q.first") as port:
        await port.set_inputs([PortInput(channel, site.name)])
        for epoch in range(epochs):
            log.publish(epoch, numbers(epoch, 1), watermark_us=watermark_us * (epoch + 1))
        while port.cursors[channel] < epochs:
            await next_batch(port)
        port.acknowledge(port.cursors)
    await eventually(lambda: log.first_epoch == epochs)


async def test_a_channel_without_its_first_epochs_is_not_read_and_holds_the_port(tmp_path: Path) -> None:
    async with sites(tmp_path, "jfk") as (jfk,), port_at(jfk) as port:
        await trimmed(jfk, FIRST, epochs=2)
        other = jfk.store.open("q.s.own")
        other.publish(0, numbers(7, 1), watermark_us=900)
        await port.set_inputs([PortInput(FIRST, "jfk", read_from=ReadFrom.FIRST), PortInput("q.s.own", "jfk")])
        batch = await next_batch(port)
        assert (values(batch), batch.watermark_us, port.missed_inputs) == ([7], None, (FIRST,))
        # Nothing is kept for it.
        assert FIRST not in jfk.router.subscriptions("q.merge")
        waiting = asyncio.create_task(next_batch(port))
        jfk.store.open(FIRST).publish(2, numbers(2, 1), watermark_us=300)
        # One of its own takes its place, and is read from the first epoch on.
        own = jfk.store.open("q2.s.jfk")
        own.publish(0, numbers(0, 3), watermark_us=300)
        await port.set_inputs([PortInput("q2.s.jfk", "jfk"), PortInput("q.s.own", "jfk")])
        batch = await waiting
        assert (values(batch), batch.watermark_us, port.missed_inputs) == ([0, 1, 2], 300, ())


async def test_a_remote_channel_without_its_first_epochs_is_not_read(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr", "jfk") as (ewr, jfk), port_at(jfk) as port:
        await trimmed(ewr, LATER, epochs=2)
        ewr.store.open(LATER).publish(2, numbers(2, 1), watermark_us=300)
        await port.set_inputs([PortInput(LATER, "ewr", read_from=ReadFrom.FIRST)])
        taking = asyncio.create_task(next_batch(port))
        await eventually(lambda: port.missed_inputs == (LATER,))
        await port.set_inputs([])
        taking.cancel()


async def test_a_whole_channel_is_read_whole(tmp_path: Path) -> None:
    async with sites(tmp_path, "jfk") as (jfk,), port_at(jfk) as port:
        log = jfk.store.open(FIRST)
        log.set_consumers(["jfk"])
        for epoch in range(3):
            log.publish(epoch, numbers(epoch, 1), watermark_us=epoch)
        await port.set_inputs([PortInput(FIRST, "jfk", read_from=ReadFrom.FIRST)])
        assert values(await next_batch(port)) == [0, 1, 2]
        # What it has let go of since is not missing.
        port.acknowledge(port.cursors)
        await eventually(lambda: log.first_epoch == 3)
        log.publish(3, numbers(3, 1), watermark_us=3)
        assert values(await next_batch(port)) == [3]
        assert (port.missed_inputs, port.incomplete_until_us) == ((), None)


async def test_a_late_join_says_up_to_when_rows_may_be_missing(tmp_path: Path) -> None:
    async with sites(tmp_path, "jfk") as (jfk,), port_at(jfk) as port:
        await trimmed(jfk, FIRST, epochs=2)
        log = jfk.store.open(FIRST)
        await port.set_inputs([PortInput(FIRST, "jfk", read_from=ReadFrom.OLDEST, event_delay_us=50)])
        batch = await next_batch(port)
        assert (values(batch), batch.watermark_us) == ([], 200)
        assert (port.incomplete_until_us, port.missed_inputs) == (250, ())
        log.publish(2, numbers(2, 1), watermark_us=260)
        assert values(await next_batch(port)) == [2]
        assert port.incomplete_until_us == 250


async def test_a_late_join_at_an_epoch_goes_by_its_watermark(tmp_path: Path) -> None:
    """The standing before the epoch is no longer known; the epoch's own watermark is not behind it."""
    async with sites(tmp_path, "jfk") as (jfk,), port_at(jfk) as port:
        await trimmed(jfk, FIRST, epochs=2)
        log = jfk.store.open(FIRST)
        log.publish(2, numbers(2, 1), watermark_us=260)
        await port.set_inputs([PortInput(FIRST, "jfk", read_from=ReadFrom.OLDEST, event_delay_us=50)])
        assert values(await next_batch(port)) == [2]
        assert port.incomplete_until_us == 310
        log.publish(3, numbers(3, 1), watermark_us=400)
        assert values(await next_batch(port)) == [3]
        assert port.incomplete_until_us == 310


async def test_a_channel_that_ended_and_holds_nothing_is_not_joined(tmp_path: Path) -> None:
    async with sites(tmp_path, "jfk") as (jfk,), port_at(jfk) as port:
        await trimmed(jfk, FIRST, epochs=2)
        jfk.store.open(FIRST).finish()
        await port.set_inputs([PortInput(FIRST, "jfk", read_from=ReadFrom.OLDEST)])
        taking = asyncio.create_task(next_batch(port))
        await eventually(lambda: port.missed_inputs == (FIRST,))
        assert not taking.done()
        taking.cancel()


async def test_a_remote_channel_that_ended_and_holds_nothing_is_not_joined(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr", "jfk") as (ewr, jfk), port_at(jfk) as port:
        await trimmed(ewr, LATER, epochs=2)
        ewr.store.open(LATER).finish()
        await port.set_inputs([PortInput(LATER, "ewr", read_from=ReadFrom.OLDEST)])
        taking = asyncio.create_task(next_batch(port))
        await eventually(lambda: port.missed_inputs == (LATER,))
        assert not taking.done()
        taking.cancel()


def _have_rows(keeper: ResultKeeper) -> bool:
    return all(status.rows for status in keeper.statuses())


async def test_results_that_begin_in_the_middle_say_from_when_on_they_are_whole(tmp_path: Path) -> None:
    async with sites(tmp_path, "ewr", "jfk") as (ewr, jfk):
        await trimmed(ewr, LATER, epochs=2)
        whole = InputSpec("q.s2.ewr", "ewr", "", read_from=ReadFrom.OLDEST)
        ewr.store.open(whole.channel).publish(0, numbers(0, 1), watermark_us=900)
        for site in (ewr, jfk):
            keeper = ResultKeeper(site.router)
            item = InputSpec(LATER, "ewr", "", read_from=ReadFrom.OLDEST, event_delay_us=50)
            await keeper.apply([ResultSpec("late", (item, whole)), ResultSpec("owner", (InputSpec(LATER, "ewr", ""),))])
            if site is ewr:
                assert [status.starts_at_us for status in keeper.statuses()] == [None, None]
                ewr.store.open(LATER).publish(2, numbers(2, 1), watermark_us=260)
            await eventually(partial(_have_rows, keeper))
            # The rows that are gone had events up to 310 at most.
            assert [status.starts_at_us for status in keeper.statuses()] == [311, None]
            await keeper.apply([])
