from __future__ import annotations

import asyncio

import grpc.aio
import pytest

from site_agent.router.links import Links

pytestmark = pytest.mark.timeout(20)


def links_that_note(opened: list[str]) -> Links:
    def connect(address: str, site: str) -> grpc.aio.Channel:
        opened.append(address)
        # Connects only when it is used.
        return grpc.aio.insecure_channel(address)

    return Links(connect)


async def test_a_site_has_one_connection_until_its_address_changes() -> None:
    opened: list[str] = []
    links = links_that_note(opened)
    assert links.set_addresses({"ewr": "h:1", "jfk": "h:2"}) == frozenset()
    first = await links.connection("ewr")
    assert await links.connection("ewr") is first
    assert links.set_addresses({"ewr": "h:1", "jfk": "h:3"}) == {"jfk"}
    assert await links.connection("ewr") is first
    assert links.set_addresses({"ewr": "h:9"}) == {"ewr", "jfk"}
    assert await links.connection("ewr") is not first
    assert opened == ["h:1", "h:9"]
    await links.close()


async def test_an_unknown_address_is_waited_for() -> None:
    opened: list[str] = []
    links = links_that_note(opened)
    waiting = asyncio.create_task(links.connection("ewr"))
    await asyncio.sleep(0)
    links.set_addresses({"jfk": "h:2"})
    await asyncio.sleep(0)
    assert not waiting.done()
    links.set_addresses({"ewr": "h:1"})
    await waiting
    assert opened == ["h:1"]
    await links.close()
