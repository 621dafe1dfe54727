from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from contract.tasks import ReadFrom
from site_agent.base.errors import TrimmedEpochError
from site_agent.channels.log import ChannelLog
from site_agent.channels.store import ChannelStore
from site_agent.port.inputs import InputState, PortInput, pick_epochs
from site_agent.port.watermark import InputWatermark

TABLE = pa.table({"n": range(100)})


def state(log: ChannelLog, *, cursor: int = 0, resumed: bool = False, read_from: ReadFrom = ReadFrom.OWN) -> InputState:
    return InputState(PortInput(log.id, "ewr", read_from=read_from), log, cursor, resumed)


def filled(store: ChannelStore, name: str, *watermarks_us: int | None) -> InputState:
    log = store.open(name)
    for epoch, watermark_us in enumerate(watermarks_us):
        log.publish(epoch, TABLE, watermark_us=watermark_us)
    return state(log)


def picked(states: list[InputState], *, max_bytes: int) -> list[tuple[str, int]]:
    return [(pick.state.log.id, pick.epoch) for pick in pick_epochs(states, max_bytes=max_bytes)]


def test_the_channel_that_is_farthest_behind_goes_first(tmp_path: Path) -> None:
    store = ChannelStore(tmp_path)
    states = [filled(store, "a", 10, 50, 60), filled(store, "b", 20, 30, 70)]
    assert picked(states, max_bytes=1 << 20) == [
        ("a", 0),
        ("b", 0),
        ("a", 1),
        ("b", 1),
        ("b", 2),
        ("a", 2),
    ]


def test_a_channel_whose_rows_may_be_before_its_watermark_counts_as_so_far_behind(tmp_path: Path) -> None:
    store = ChannelStore(tmp_path)
    states = [filled(store, "a", 10, 50, None), filled(store, "b", 20, 30, 70)]
    states[1].source = replace(states[1].source, behind_us=25)
    assert [state.source.watermark_us(state.log.epochs.manifest(2).standing) for state in states] == [None, 45]
    assert picked(states, max_bytes=1 << 20)[:4] == [("a", 0), ("b", 0), ("b", 1), ("b", 2)]


def test_the_limit_is_kept_but_one_epoch_always_fits(tmp_path: Path) -> None:
    source = filled(ChannelStore(tmp_path), "a", 1, 2, 3)
    size_bytes = source.log.epochs.manifest(0).raw_bytes
    assert picked([source], max_bytes=1) == [("a", 0)]
    assert picked([source], max_bytes=2 * size_bytes) == [("a", 0), ("a", 1)]
    assert picked([source], max_bytes=2 * size_bytes - 1) == [("a", 0)]
    assert source.cursor == 0


def test_no_channel_starves(tmp_path: Path) -> None:
    store = ChannelStore(tmp_path)
    states = [filled(store, "silent", *[None] * 5), filled(store, "dated", *range(5))]
    first = []
    for turn in range(1, 5):
        (pick,) = pick_epochs(states, max_bytes=1)
        pick.state.cursor, pick.state.last_turn = pick.epoch + 1, turn
        first.append(pick.state.log.id)
    assert first == ["silent", "dated", "silent", "dated"]


def test_a_new_channel_skips_what_was_never_kept_for_it(tmp_path: Path) -> None:
    log = ChannelStore(tmp_path).open("a")
    log.begin_at(4)
    fresh = state(log, read_from=ReadFrom.OLDEST)
    fresh.settle()
    assert (fresh.cursor, fresh.news) == (4, False)


@pytest.mark.parametrize(("cursor", "read_from"), [(0, ReadFrom.OWN), (2, ReadFrom.OWN), (2, ReadFrom.OLDEST)])
def test_epochs_that_were_kept_for_the_reader_are_never_skipped(
    tmp_path: Path, cursor: int, read_from: ReadFrom
) -> None:
    log = ChannelStore(tmp_path).open("a")
    log.begin_at(4)
    with pytest.raises(TrimmedEpochError) as caught:
        state(log, cursor=cursor, resumed=cursor > 0, read_from=read_from).settle()
    assert caught.value.ids == {"channel": "a", "epoch": str(cursor)}


def test_an_idle_channel_with_something_to_take_is_not_idle(tmp_path: Path) -> None:
    source = filled(ChannelStore(tmp_path), "a", 5)
    source.says = InputWatermark(5, idle=True)
    assert source.heard() == InputWatermark(5)
    source.cursor = 1
    assert source.heard() == InputWatermark(5, idle=True)


def test_a_channel_that_begins_later_since_it_was_joined_is_taken_only_after_it_settled(tmp_path: Path) -> None:
    """A copy learns where it begins while its reader is about to pick."""
    log = ChannelStore(tmp_path).open("late")
    joined = state(log, read_from=ReadFrom.OLDEST)
    joined.settle()
    log.begin_at(2)
    log.publish(2, TABLE, watermark_us=5)
    assert picked([joined], max_bytes=1) == []
    joined.settle()
    assert picked([joined], max_bytes=1) == [("late", 2)]
