from __future__ import annotations

import pytest

from benchmarks.sharing_planner import KINDS, Mesh, World
from planner.sharing.modes import Sharing


def test_every_pair_of_sites_has_a_link() -> None:
    mesh = Mesh(["a", "b", "c"])
    assert len(list(mesh)) == len(mesh) == 6
    assert all(mesh[pair].bandwidth_bytes_per_s > 0 for pair in mesh)
    assert ("a", "a") not in mesh


def test_a_query_that_runs_already_is_shared_and_one_of_another_stream_is_not_compared() -> None:
    world = World(12)
    world.fill(3)
    plans = {kind: world.plan_s(world.new(kind), Sharing.SANA)[1] for kind in KINDS}
    assert plans["nothing in common"].compared == 0
    assert plans["runs already"].deployed == ()
    assert plans["runs already"].wan_bytes_per_s == pytest.approx(0)
