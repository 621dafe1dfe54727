from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
import yaml

from selat.wan.errors import WanError
from selat.wan.links import LinkChange
from selat.wan.scenario import LinkEvent, RateEvent, SiteAction, SiteEvent, parse_scenario
from tests.unit.selat.wan.build import SITES

SHIPPED = sorted((Path(__file__).parents[4] / "deploy" / "scenarios").glob("*.yaml"))


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


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_scenarios(path: Path) -> None:
    assert parse_scenario(yaml.safe_load(path.read_text()), SITES)


def test_some_are_shipped() -> None:
    assert len(SHIPPED) >= 3
