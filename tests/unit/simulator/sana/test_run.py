from __future__ import annotations

from dataclasses import replace

import pytest

from planner.sharing.modes import Sharing
from simulator.sana.figures import DEFAULT, MQO, NET, ROUTED, SANA, STRICT
from simulator.sana.queries import QUERIES, standard
from simulator.sana.run import Outcome, System, run
from simulator.sana.world import World, WorldSettings

FEW = QUERIES[1:6]
ALL = (DEFAULT, NET, MQO, SANA, STRICT, ROUTED)
AMPLE = World(WorldSettings(bandwidth=100.0), 1)
SCARCE = World(WorldSettings(bandwidth=0.3), 1)


def outcome(world: World, system: System) -> Outcome:
    return run(world, system, FEW, standard())


@pytest.fixture(scope="module")
def ample() -> dict[str, Outcome]:
    return {system.name: outcome(AMPLE, system) for system in ALL}


def test_where_links_are_wide_every_record_is_taken_in(ample: dict[str, Outcome]) -> None:
    for found in ample.values():
        assert found.share_of_rows == pytest.approx(1.0, abs=1e-6)
        assert found.full_links == 0
        # Two links at most lie on the way, none of more than 150 ms.
        assert all(0 < query.latency_s < 0.35 for query in found.queries)


def test_sharing_saves_bytes(ample: dict[str, Outcome]) -> None:
    assert ample["Sana"].wan_bytes_per_s < 0.7 * ample["NET"].wan_bytes_per_s
    assert ample["Strict-Share with routers"].wan_bytes_per_s < ample["Strict-Share"].wan_bytes_per_s
    assert ample["NET"].sharing_ratio == ample["Default"].sharing_ratio == 0
    assert ample["Sana"].sharing_ratio > 0.2


def test_the_parts_of_the_queries_are_all_there_is(ample: dict[str, Outcome]) -> None:
    for found in ample.values():
        assert sum(query.wan_bytes_per_s for query in found.queries) == pytest.approx(found.wan_bytes_per_s)


def test_where_links_are_narrow_records_wait_and_are_not_taken_in(ample: dict[str, Outcome]) -> None:
    found = outcome(SCARCE, NET)
    assert found.share_of_rows < 0.9
    assert found.full_links > 0
    assert found.latency_s > 2 * ample["NET"].latency_s
    assert all(query.rows_per_s <= query.born_per_s * (1 + 1e-6) for query in found.queries)


def test_at_their_own_pace_readers_of_a_shared_source_do_not_wait_for_others() -> None:
    apart = outcome(SCARCE, replace(ROUTED, sources_wait=False))
    assert apart.rows_per_s > 1.02 * outcome(SCARCE, ROUTED).rows_per_s


def test_the_same_seed_is_the_same_run() -> None:
    assert outcome(SCARCE, SANA) == outcome(World(SCARCE.settings, 1), SANA)


def test_stages_where_streams_are_born_send_little() -> None:
    own = outcome(AMPLE, replace(SANA, at_birthplaces=True))
    alone = outcome(AMPLE, System("own", Sharing.NO_SHARE, at_birthplaces=True))
    assert (own.share_of_rows, alone.share_of_rows) == pytest.approx((1.0, 1.0), abs=1e-6)
    assert own.wan_bytes_per_s < alone.wan_bytes_per_s < outcome(AMPLE, SANA).wan_bytes_per_s


def test_the_rule_of_room_is_for_modes_that_place_by_links() -> None:
    for system in (DEFAULT, MQO):
        assert outcome(SCARCE, replace(system, keeps_room=False)) == outcome(SCARCE, system)
    assert outcome(SCARCE, replace(SANA, keeps_room=False)) != outcome(SCARCE, SANA)


def test_records_of_a_stream_are_those_of_its_queries(ample: dict[str, Outcome]) -> None:
    found = ample["Sana"]
    assert {query.name for query in found.of_stream("posts")} == {"2", "4"}
    by_stream = sum(query.rows_per_s for name in ("posts", "replies") for query in found.of_stream(name))
    assert found.rows_in_all_per_s == pytest.approx(by_stream)


def test_a_query_by_its_name(ample: dict[str, Outcome]) -> None:
    assert ample["Sana"].query("2").name == "2"
    with pytest.raises(KeyError):
        ample["Sana"].query("1")
