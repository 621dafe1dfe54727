from __future__ import annotations

from datetime import UTC, datetime

import pytest

from planner.sharing.wan import Wan, wan_of
from planner.wan.estimate import LinkRecord
from planner.wan.snapshot import snapshot
from tests.unit.planner.build import topology_of

LINKS = {("a", "b"): (3e6, 20), ("a", "c"): (1e6, 10), ("b", "a"): (2e6, 20), ("c", "a"): (5e6, 10)}
TOPOLOGY = topology_of("a", "b", "c", links=LINKS)


def test_a_site_can_spare_the_sum_over_its_links() -> None:
    wan = Wan(TOPOLOGY)
    assert (wan.egress("a"), wan.ingress("a")) == (4e6, 7e6)
    used = Wan(TOPOLOGY, {("a", "b"): 2e6, ("c", "a"): -4e6})
    assert (used.spare("a", "b"), used.spare("c", "a")) == (2e6, 0)
    assert (used.egress("a"), used.ingress("a")) == (3e6, 2e6)
    assert Wan(topology_of("a")).egress("a") == Wan(topology_of("a")).ingress("a") == float("inf")


def test_cost_is_rate_times_latency_squared_over_what_is_spare() -> None:
    wan = Wan(TOPOLOGY, {("a", "b"): 0.0})
    assert wan.cost("b", "a", 1e6) == pytest.approx(1e6 * 0.02**2 / 2e6)
    assert wan.cost("a", "a", 1e6) == 0
    assert wan.cost("a", "b", 1e6) == wan.cost("a", "elsewhere", 1e6) == float("inf")
    assert wan.cost("a", "b", 0) == 0


def test_measured_links_go_by_what_is_available() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    measured = LinkRecord(used_bytes_per_s=0.4e6)
    wan = wan_of(TOPOLOGY, snapshot(TOPOLOGY, {("a", "c"): measured}, now))
    assert wan.spare("a", "c") == pytest.approx(0.6e6)
    assert wan.spare("a", "b") == 3e6
    assert wan.spare("a", "elsewhere") == 0
