from __future__ import annotations

from pathlib import Path

import pytest

from planner.combining.early import Demand
from site_agent.channels.store import ChannelStore
from site_agent.exchange.outbound import Outbound
from site_agent.tasks.pool import FRESH_S, SendPool
from tests.unit.site_agent.exchange.test_outbound import RATE, Clock, transfer
from tests.unit.site_agent.tasks.test_merge import partials


def test_tasks_of_a_link_know_of_each_other_for_a_while(tmp_path: Path) -> None:
    store = ChannelStore(tmp_path)
    one, other = store.open("q.c1.eu"), store.open("r.c1.eu")
    pool, demands = SendPool(), (Demand(10.0, 5.0, 5.0),)
    pool.say("us", one, demands, until_s=3.0)
    assert pool.others("us", other.id, now_s=2.0) == [demands]
    assert pool.others("us", one.id, now_s=2.0) == []
    assert pool.others("asia", other.id, now_s=2.0) == []
    assert pool.others("us", other.id, now_s=4.0) == [], "it may have ended, or stand still"
    pool.leave(one.id)
    assert pool.others("us", other.id, now_s=2.0) == []


def test_what_waits_for_a_link_is_that_of_all_its_tasks(tmp_path: Path) -> None:
    clock = Clock()
    outbound = Outbound(clock)
    pool, store = SendPool(outbound), ChannelStore(tmp_path)
    one, other = store.open("q.c1.eu"), store.open("r.c1.eu")
    for log in (one, other):
        log.publish(0, partials((0, "a", 1)), watermark_us=1)
    assert pool.link("us", one) is None, "nothing was sent over it yet"
    transfer(outbound, clock, 100_000, 40_000)
    pool.say("us", other, (), until_s=1e9)
    calls = [outbound.call("us", log.id, 0) for log in (one, other)]
    link = pool.link("us", one)
    assert link is not None
    assert link.bytes_per_s == pytest.approx(RATE)
    assert link.queued_bytes == one.epochs.retained_bytes + other.epochs.retained_bytes
    for call, log in zip(calls, (one, other), strict=True):
        size_bytes = log.epochs.manifest(0).size_bytes
        call.sent(0, size_bytes)
        call.stored(size_bytes)
    done = pool.link("us", one)
    assert done is not None
    assert done.queued_bytes == 0
    outbound.end("us", one.id, calls[0])
    cut = pool.link("us", one)
    assert cut is not None
    assert cut.queued_bytes == one.epochs.retained_bytes, "whoever does not read has stored nothing, as far as is known"
    assert cut.fresh
    clock.now_s += FRESH_S + 1
    stale = pool.link("us", one)
    assert stale is not None
    assert not stale.fresh
