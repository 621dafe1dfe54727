from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from site_agent.base.errors import ChannelRequestError, UnconfirmedChannelsError, UnknownChannelError
from site_agent.channels.store import ChannelStore
from tests.unit.site_agent.channels.crash import Crash, CrashingFiles


def test_a_channel_is_opened_once(tmp_path: Path) -> None:
    store = ChannelStore(tmp_path / "new" / "root")
    log = store.open("q-0001-a1b2c3.s0.ewr")
    assert store.open(log.id) is log
    assert store.get(log.id) is log
    assert store.ids() == ("q-0001-a1b2c3.s0.ewr",)


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "a b", "ü", "a" * 201, "a\n"])
def test_other_names_are_refused(tmp_path: Path, name: str) -> None:
    store = ChannelStore(tmp_path)
    with pytest.raises(ChannelRequestError, match="is no channel id"):
        store.open(name)
    with pytest.raises(UnknownChannelError):
        store.get(name)
    store.remove(name)
    assert store.ids() == ()


def test_a_channel_of_an_earlier_process_is_known(tmp_path: Path) -> None:
    ChannelStore(tmp_path).open("c").publish(0, None, watermark_us=7)
    assert ChannelStore(tmp_path).get("c").next_epoch == 1
    with pytest.raises(UnknownChannelError) as caught:
        ChannelStore(tmp_path).get("d")
    assert caught.value.ids == {"channel": "d"}


def test_before_the_master_has_spoken_a_channel_is_not_known_to_be_unknown(tmp_path: Path) -> None:
    ChannelStore(tmp_path).open("c")
    store = ChannelStore(tmp_path)
    store.confirmed = False
    assert store.get("c").id == "c"
    with pytest.raises(UnconfirmedChannelsError, match="not heard from the master"):
        store.get("d")
    store.confirmed = True
    with pytest.raises(UnknownChannelError) as caught:
        store.get("d")
    assert not isinstance(caught.value, UnconfirmedChannelsError)


@pytest.mark.timeout(20)
async def test_a_channel_that_is_made_later_is_found(tmp_path: Path) -> None:
    store = ChannelStore(tmp_path)
    finding = asyncio.create_task(store.find("c", within_s=10.0))
    await asyncio.sleep(0)
    made = await asyncio.to_thread(store.open, "c")
    assert await finding is made
    assert await store.find("c", within_s=0.0) is made


@pytest.mark.parametrize("name", ["c", "../c"])
async def test_a_channel_that_nobody_makes_is_unknown(tmp_path: Path, name: str) -> None:
    with pytest.raises(UnknownChannelError):
        await ChannelStore(tmp_path).find(name, within_s=0.0)


def test_a_removed_channel_can_be_made_anew(tmp_path: Path) -> None:
    store = ChannelStore(tmp_path)
    old = store.open("c")
    old.publish(0, None, watermark_us=None)
    store.remove("c")
    store.remove("c")
    new = store.open("c")
    assert new is not old
    assert new.next_epoch == 0


def test_retained_bytes_are_told_by_channel(tmp_path: Path) -> None:
    store = ChannelStore(tmp_path)
    for name in ("a", "b"):
        store.open(name).publish(0, None, watermark_us=None)
    files = list(tmp_path.rglob("*.epoch"))
    assert store.retained_by_channel() == {path.parent.name: path.stat().st_size for path in files}


def test_a_crash_while_removing_leaves_all_or_nothing(tmp_path: Path) -> None:
    files = CrashingFiles()
    store = ChannelStore(tmp_path, files)
    store.open("c").publish(0, None, watermark_us=None)
    files.arm(0)
    with pytest.raises(Crash):
        store.remove("c")
    assert ChannelStore(tmp_path).get("c").next_epoch == 1
    (tmp_path / "c").rename(tmp_path / ".removed-c")
    assert ChannelStore(tmp_path).ids() == ()
    assert list(tmp_path.iterdir()) == []
