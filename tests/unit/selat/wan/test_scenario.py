from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from selat.wan.errors import WanError
from selat.wan.links import LinkChange
from selat.wan.scenario import Event, LinkEvent, RateEvent, SiteAction, SiteEvent, parse_scenario
from tests.unit.selat.wan.build import SITES

SHIPPED = Path(__file__).parents[4] / "deploy" / "scenarios"


def test_events_come_in_order_of_time() -> None:
    events = parse_scenario(
        [
            {"at": "2min", "revive": "asia"},
            {"at": "0s", "set": "us->eu", "bandwidth": "x0.5"},
            {"at": "90s", "kill": "asia"},
            {"at": "30s", "sever": "us<->eu"},
            {"at": "40s", "rate": "clicks", "factor": 2},
        ],
        SITES,
    )
    assert [event.at.total_seconds() for event in events] == [0, 30, 40, 90, 120]
    first, second, third, fourth, _ = events
    assert isinstance(first, LinkEvent)
    assert first.changes == {("us", "eu"): LinkChange(bandwidth_factor=0.5)}
    assert isinstance(second, LinkEvent)
    assert second.changes == dict.fromkeys([("us", "eu"), ("eu", "us")], LinkChange(severed=True))
    assert third == RateEvent(timedelta(seconds=40), "rate clicks x2", "clicks", 2.0)
    assert fourth == SiteEvent(timedelta(seconds=90), "kill asia", "asia", SiteAction.KILL)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ({}, "list of events"),
        ([], "list of events"),
        (["kill asia"], r"\[0\] is no event"),
        ([{"kill": "asia"}], r"\[0\].at"),
        ([{"at": 5, "kill": "asia"}], r"\[0\].at"),
        ([{"at": "5s"}], "says nothing"),
        ([{"at": "5s", "kill": "asia", "revive": "asia"}], "kill and revive"),
        ([{"at": "5s", "kill": "mars"}], "no site mars"),
        ([{"at": "5s", "sever": "us->eu", "bandwidth": "x2"}], r"\[0\].bandwidth"),
        ([{"at": "5s", "set": "us->eu"}], "nothing to change"),
        ([{"at": "5s", "set": "us->eu", "latency": "fast"}], "latency is fast"),
        ([{"at": "5s", "rate": "clicks"}], "factor is None"),
        ([{"at": "5s", "rate": "clicks", "factor": -1}], "factor is -1"),
    ],
)
def test_what_is_no_scenario(data: object, said: str) -> None:
    with pytest.raises(WanError, match=said) as caught:
        parse_scenario(data, SITES)
    assert caught.value.hint


def shipped(name: str) -> tuple[Event, ...]:
    return parse_scenario(yaml.safe_load((SHIPPED / f"{name}.yaml").read_text()), SITES)


def course(events: Sequence[Event], step_s: int, end_s: int) -> list[tuple[float, float]]:
    """Factors of the rate and of all bandwidths, at each step."""
    rate, bandwidth, found = 1.0, 1.0, []
    waiting = list(events)
    for at_s in range(0, end_s, step_s):
        while waiting and waiting[0].at.total_seconds() <= at_s:
            match waiting.pop(0):
                case RateEvent(factor=factor):
                    rate = factor
                case LinkEvent(changes=changes):
                    assert set(changes) == {(a, b) for a in SITES for b in SITES if a != b}
                    (change,) = set(changes.values())
                    assert change.bandwidth_factor is not None
                    bandwidth = change.bandwidth_factor
        found.append((rate, bandwidth))
    assert not waiting
    return found


def test_the_scenario_of_dynamics() -> None:
    assert course(shipped("dynamics"), 300, 1500) == [(1, 1), (2, 1), (1, 1), (1, 0.5), (1, 1)]


def test_the_scenario_of_overlapping_dynamics() -> None:
    assert course(shipped("overlapping"), 300, 1500) == [(1, 1), (2, 1), (2, 0.5), (1, 0.5), (1, 1)]


def test_the_scenario_of_a_random_trace() -> None:
    """In the ranges of its source; all but the gateway, where the master is, are lost for a minute."""
    events = shipped("random-trace")
    _, *drawn = course(events, 60, 1800)
    assert len(set(drawn)) == len(drawn) == 29
    assert all(0.8 <= rate <= 2.4 and 0.51 <= bandwidth <= 2.36 for rate, bandwidth in drawn)
    lost = [(e.at.total_seconds(), e.action, e.site) for e in events if isinstance(e, SiteEvent)]
    kill, revive = SiteAction.KILL, SiteAction.REVIVE
    assert lost == [(540, kill, "eu"), (540, kill, "asia"), (600, revive, "eu"), (600, revive, "asia")]


def test_all_that_are_shipped_are_looked_at() -> None:
    assert {path.stem for path in SHIPPED.iterdir()} == {"dynamics", "overlapping", "random-trace"}
