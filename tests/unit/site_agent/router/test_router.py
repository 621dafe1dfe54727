"""Bookkeeping of a router without a network; tests/integration/test_exchange.py has the transfers."""

from __future__ import annotations

from pathlib import Path

import grpc.aio
import pytest

from site_agent.base.errors import ChannelError
from site_agent.channels.store import ChannelStore
from site_agent.router import Router

pytestmark = pytest.mark.timeout(20)


def no_network(address: str, site: str) -> grpc.aio.Channel:
    raise AssertionError(f"nothing connects to {site} at {address} here")


async def test_a_channel_comes_from_one_site(tmp_path: Path) -> None:
    router = Router("jfk", ChannelStore(tmp_path), no_network)
    await router.subscribe("c", "ewr", "a", query_id="q1")
    with pytest.raises(ChannelError, match="comes from ewr, not from lga"):
        await router.subscribe("c", "lga", "b")
    assert router.subscriptions("a") == {"c": "ewr"}
    assert [(u.channel, u.query_id, u.bytes, u.readers) for u in router.usage()] == [("c", "q1", 0, 1)]
    await router.close()


async def test_subscribing_and_leaving_twice_is_once(tmp_path: Path) -> None:
    store = ChannelStore(tmp_path)
    router = Router("jfk", store, no_network)
    log = await router.subscribe("c", "ewr", "a")
    assert await router.subscribe("c", "ewr", "a") is log
    assert router.usage()[0].readers == 1
    for _ in range(2):
        await router.unsubscribe("c", "a")
    assert store.ids() == ()
    router.acknowledge("c", "a", 5)
    await router.close()


async def test_a_producer_may_remove_its_channel_first(tmp_path: Path) -> None:
    store = ChannelStore(tmp_path)
    router = Router("jfk", store, no_network)
    log = await router.subscribe("c", "jfk", "a")
    await router.subscribe("c", "jfk", "b")
    log.publish(0, None, watermark_us=None)
    store.remove("c")
    router.acknowledge("c", "a", 0)
    await router.unsubscribe("c", "a")
    await router.unsubscribe("c", "b")
    assert (router.subscriptions("b"), store.ids()) == ({}, ())
    await router.close()


async def test_a_restarted_router_knows_its_readers(tmp_path: Path) -> None:
    first = Router("jfk", ChannelStore(tmp_path), no_network)
    await first.subscribe("c", "ewr", "a")
    await first.subscribe("c", "ewr", "b")
    await first.subscribe("d", "ewr", "b")
    await first.close()
    store = ChannelStore(tmp_path)
    second = Router("jfk", store, no_network)
    assert second.subscriptions("b") == {"c": "ewr", "d": "ewr"}
    await second.keep_only(["a"])
    assert (second.subscriptions("b"), store.ids()) == ({}, ("c",))
    await second.close()


async def test_a_reader_that_joins_later_keeps_what_is_still_there_for_another_site(tmp_path: Path) -> None:
    router = Router("jfk", ChannelStore(tmp_path), no_network)
    log = await router.subscribe("c", "jfk", "a")
    log.set_consumers(["jfk", "ewr"])
    for epoch in range(8):
        log.publish(epoch, None, watermark_us=None)
    router.acknowledge("c", "a", 7)
    log.acknowledge("ewr", 3)
    assert log.first_epoch == 4
    assert await router.subscribe("c", "jfk", "b") is log
    router.acknowledge("c", "a", 7)
    # The other site needs it no longer; the new reader does.
    log.set_consumers(["jfk"])
    assert log.first_epoch == 4
    router.acknowledge("c", "b", 5)
    assert log.first_epoch == 6
    await router.close()
