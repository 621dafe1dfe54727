from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest

from selat.wan.links import LinkState
from selat.wan.shaping import class_line, fifo_line, netem_line, queue_bytes, reshape_senders, shape_sender
from tests.unit.selat.wan.build import LAYOUT, LINK, LINKS


def test_a_class_has_the_links_rate() -> None:
    line = class_line(2, LINK)
    assert "classid 1:2 htb rate 20000000bit ceil 20000000bit" in line
    assert "burst 16384 cburst 16384" in line


def test_fast_links_get_a_longer_burst() -> None:
    assert "burst 125000 " in class_line(2, replace(LINK, bandwidth_bytes_per_s=125e6))


def test_a_queue_holds_a_tenth_of_a_second() -> None:
    assert queue_bytes(LINK) == 250_000
    assert queue_bytes(replace(LINK, bandwidth_bytes_per_s=1000.0)) == 30_000
    assert fifo_line(16, LINK) == "qdisc replace dev wan0 parent 1:10 bfifo limit 250000"


def test_netem_says_only_what_there_is() -> None:
    assert "netem delay 40000us limit" in netem_line(2, LINK)
    jittery = replace(LINK, jitter=timedelta(milliseconds=5), loss=0.015)
    assert "netem delay 40000us 5000us loss 1.5% limit" in netem_line(2, jittery)


def test_netem_holds_what_is_under_way() -> None:
    limit = int(netem_line(2, LinkState(12.5e6, timedelta(milliseconds=200))).rpartition(" ")[2])
    assert limit * 1514 > 12.5e6 * 0.3


def test_a_sender_is_shaped_towards_every_other_site() -> None:
    batch = shape_sender(LAYOUT, "eu", LINKS, netem=False)
    assert (batch.tool, batch.namespace) == ("tc", "selat-lab.eu")
    classes = [line for line in batch.lines if line.startswith("class") and "20000000bit" in line]
    assert len(classes) == 2
    filters = [line for line in batch.lines if "match ip dst 10.77.3." in line]
    assert [line.rpartition("flowid ")[2] for line in filters] == ["1:1", "1:3"]


def test_severed_links_lose_everything_before_acknowledgements_may_pass() -> None:
    links = LINKS | {("eu", "asia"): replace(LINK, severed=True)}
    (batch,) = reshape_senders(LAYOUT, links, [("eu", "us")], netem=True)
    lines = batch.lines
    closed = [line for line in lines if line.endswith("flowid 1:fe") and "10.77.3.3" in line]
    assert closed
    assert not any("10.77.3.1" in line and "1:fe" in line for line in lines)
    filters = Filters()
    filters.run(shape_sender(LAYOUT, "eu", LINKS, netem=True).lines)
    assert not filters.lose("10.77.3.3")
    filters.run(lines)
    assert filters.lose("10.77.3.3")
    assert not filters.lose("10.77.3.1")


def test_each_sender_is_reshaped_once() -> None:
    batches = reshape_senders(LAYOUT, LINKS, [("eu", "us"), ("us", "asia"), ("eu", "asia")], netem=False)
    assert [batch.namespace for batch in batches] == ["selat-lab.eu", "selat-lab.us"]
    classes = [line.split("classid ")[1].split()[0] for line in batches[0].lines if line.startswith("class")]
    assert classes == ["1:1", "1:3"]


@dataclass(slots=True)
class Filters:
    """A device's filters as the kernel keeps them: by their order, and what is not there cannot be deleted."""

    by_order: dict[int, list[str]] = field(default_factory=dict)

    def run(self, lines: Sequence[str]) -> None:
        for line in lines:
            if line.startswith("filter"):
                order = int(line.split(" prio ")[1].split()[0])
                if line.startswith("filter del"):
                    del self.by_order[order]
                else:
                    self.by_order.setdefault(order, []).append(line)

    def lose(self, address: str) -> bool:
        """Whether all packets to an address are lost, acknowledgements too."""
        acknowledgements = next(order for order, lines in self.by_order.items() if any("0x10 0xff" in x for x in lines))
        first = (line for order in sorted(self.by_order) if order < acknowledgements for line in self.by_order[order])
        return any(f"dst {address}/32" in line and line.endswith("flowid 1:fe") for line in first)


@pytest.mark.parametrize("changed", ["us", "asia"], ids=["another-link", "itself"])
def test_what_is_severed_stays_so_after_each_line_of_a_change(changed: str) -> None:
    """Also of a change that comes after one that was killed anywhere."""
    links = LINKS | {("eu", "asia"): replace(LINK, severed=True)}
    (batch,) = reshape_senders(LAYOUT, links, [("eu", changed)], netem=False)
    for killed_after in range(len(batch.lines)):
        filters = Filters()
        filters.run(shape_sender(LAYOUT, "eu", links, netem=False).lines)
        before = {order: list(lines) for order, lines in filters.by_order.items()}
        for line in (*batch.lines[:killed_after], *batch.lines):
            filters.run([line])
            assert filters.lose("10.77.3.3")
            assert not filters.lose("10.77.3.1")
        assert filters.by_order == before


def test_a_healed_link_passes_when_the_change_is_done_whatever_was_left_before() -> None:
    severed = LINKS | {("eu", "asia"): replace(LINK, severed=True)}
    (cut,) = reshape_senders(LAYOUT, severed, [("eu", "asia")], netem=False)
    (heal,) = reshape_senders(LAYOUT, LINKS, [("eu", "asia")], netem=False)
    for killed_after in range(len(cut.lines) + 1):
        filters = Filters()
        filters.run(shape_sender(LAYOUT, "eu", LINKS, netem=False).lines)
        filters.run(cut.lines[:killed_after])
        filters.run(heal.lines)
        assert not filters.lose("10.77.3.3")


@pytest.mark.parametrize("netem", [False, True])
def test_classes_and_queues_change_in_place(netem: bool) -> None:
    """None is deleted or added, so that no packet meets a device without them."""
    (batch,) = reshape_senders(LAYOUT, LINKS, [("eu", "us"), ("eu", "asia")], netem=netem)
    acts = [line.split()[:2] for line in batch.lines if not line.startswith("filter")]
    assert acts == [["class", "replace"], ["qdisc", "replace"]] * 2
