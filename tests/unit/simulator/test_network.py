from __future__ import annotations

import pytest

from simulator.clock import Clock
from simulator.network import Link, Network, Transfer

AB: Link = ("a", "b")


class Lab:
    """A network, and when each transfer ended."""

    def __init__(self, **capacities: float) -> None:
        self.clock = Clock()
        self.capacities = {(name[0], name[1]): value for name, value in capacities.items()}
        self.network = Network(self.clock, lambda link: self.capacities[link])
        self.ended: dict[str, float] = {}

    def send(self, name: str, at_s: float, size_bytes: float, *path: Link) -> None:
        def begin() -> None:
            self.begin(name, size_bytes, *path)

        self.clock.at(at_s, begin)

    def begin(self, name: str, size_bytes: float, *path: Link) -> Transfer:
        def end() -> None:
            self.ended[name] = self.clock.now_s

        return self.network.send(path, size_bytes, end)


def test_a_transfer_takes_size_over_bandwidth() -> None:
    lab = Lab(ab=10.0)
    lab.send("one", 1.0, 50.0, AB)
    lab.clock.run()
    assert lab.ended == {"one": pytest.approx(6.0)}


def test_transfers_share_a_link_while_both_are_on_it() -> None:
    lab = Lab(ab=10.0)
    lab.send("one", 0.0, 50.0, AB)
    lab.send("two", 2.0, 50.0, AB)
    lab.clock.run()
    # Alone until 2 s (20 bytes), then 5 a second each; the first ends after 6 more, the second has 20 left.
    assert lab.ended == {"one": pytest.approx(8.0), "two": pytest.approx(10.0)}


def test_a_link_that_changes_changes_what_is_on_its_way() -> None:
    lab = Lab(ab=10.0)
    lab.send("one", 0.0, 100.0, AB)

    def halve() -> None:
        lab.capacities[AB] = 5.0
        lab.network.changed()

    lab.clock.at(4.0, halve)
    lab.clock.run()
    assert lab.ended == {"one": pytest.approx(16.0)}


def test_a_cancelled_transfer_never_ends_and_leaves_its_share() -> None:
    lab = Lab(ab=10.0)
    lab.send("one", 0.0, 50.0, AB)
    other = lab.begin("other", 1000.0, AB)
    lab.clock.at(2.0, lambda: lab.network.cancel(other))
    lab.clock.run()
    assert lab.ended == {"one": pytest.approx(6.0)}


def test_without_a_link_on_the_way_it_is_there_at_once() -> None:
    lab = Lab()
    lab.send("one", 3.0, 1e12)
    lab.clock.run()
    assert lab.ended == {"one": 3.0}


def test_a_dead_link_holds_what_is_on_it() -> None:
    lab = Lab(ab=0.0)
    lab.send("one", 0.0, 10.0, AB)
    lab.clock.run()
    assert lab.ended == {}
