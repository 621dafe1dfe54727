"""A source that has fallen behind leaves rows out where its query allows that."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from planner.values.adapting import Degrade, Degrading
from site_agent.channels.log import ChannelLog
from site_agent.channels.store import ChannelStore
from site_agent.tasks.shedding import Shedding
from tests.unit.site_agent.fakes import VirtualClock

LATE = Degrading(Degrade.LATE, timedelta(seconds=10))


@pytest.fixture
def log(tmp_path: Path) -> ChannelLog:
    found = ChannelStore(tmp_path).open("q.s1.p0")
    found.set_consumers(["hub"])
    return found


def publish(log: ChannelLog, shedding: Shedding) -> None:
    shedding.published(log.publish(log.next_epoch, None, watermark_us=0).epoch)
    shedding.read(everything=True)


def test_rows_wait_in_the_channel_until_a_reader_has_taken_them(log: ChannelLog) -> None:
    clock = VirtualClock()
    shedding = Shedding(log, LATE, clock)
    shares = []
    for second in range(16):
        clock.elapsed_s = float(second)
        shedding.look()
        shares.append(shedding.share)
        publish(log, shedding)
        if second == 13:
            log.acknowledge("hub", 12)
    # The oldest epoch waits for more than ten seconds; at last none does for more than five.
    assert shares == [1.0] * 11 + [0.0] * 3 + [1.0] * 2
    assert shedding.reason == ""


def test_rows_wait_outside_while_not_all_of_them_are_read(log: ChannelLog) -> None:
    clock = VirtualClock()
    shedding = Shedding(log, LATE, clock)
    for second, everything, share in ((5.0, False, 1.0), (11.0, False, 0.0), (12.0, True, 0.0), (13.0, True, 1.0)):
        clock.elapsed_s = second
        shedding.look()
        assert shedding.share == share
        assert ("leaves out 100%" in shedding.reason) == (share == 0)
        shedding.read(everything=everything)


def test_nothing_is_left_out_unless_the_query_allows_it(log: ChannelLog) -> None:
    clock = VirtualClock()
    shedding = Shedding(log, None, clock)
    publish(log, shedding)
    clock.elapsed_s = 1e6
    shedding.look()
    assert (shedding.share, shedding.reason) == (1.0, "")
