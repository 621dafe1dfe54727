from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from selat.wan.changes import change_of_words, pairs_of
from selat.wan.errors import WanError
from selat.wan.links import LinkChange, LinkState
from tests.unit.selat.wan.build import LINK, SITES


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("us->eu", {("us", "eu")}),
        (" us <-> eu ", {("us", "eu"), ("eu", "us")}),
        ("us->*", {("us", "eu"), ("us", "asia")}),
        ("*->us", {("eu", "us"), ("asia", "us")}),
        ("*->*", {(a, b) for a in SITES for b in SITES if a != b}),
        ("*<->*", {(a, b) for a in SITES for b in SITES if a != b}),
    ],
)
def test_pairs(text: str, pairs: set[tuple[str, str]]) -> None:
    found = pairs_of(text, SITES)
    assert set(found) == pairs
    assert len(found) == len(pairs)


@pytest.mark.parametrize("text", ["us", "us=>eu", "us->mars", "us->us", "->eu", "us->eu->asia", ""])
def test_what_names_no_link(text: str) -> None:
    with pytest.raises(WanError) as caught:
        pairs_of(text, SITES)
    assert caught.value.hint


def test_figures() -> None:
    change = change_of_words(["bandwidth=5Mbit/s", "latency=80ms", "jitter=2ms", "loss=1%"])
    assert change == LinkChange(625e3, None, timedelta(milliseconds=80), timedelta(milliseconds=2), 0.01)
    assert change.applied(replace(LINK, severed=True), original=LINK) == LinkState(
        625e3, timedelta(milliseconds=80), timedelta(milliseconds=2), 0.01, severed=True
    )


def test_a_factor_is_of_the_declared_bandwidth() -> None:
    change = change_of_words(["bandwidth=x0.5"])
    slowed = change.applied(LINK, original=LINK)
    assert change.applied(slowed, original=LINK).bandwidth_bytes_per_s == LINK.bandwidth_bytes_per_s / 2


@pytest.mark.parametrize(
    "words",
    [["bandwidth=5"], ["bandwidth=x0"], ["speed=1Mbit/s"], ["latency"], [], ["loss=200%"], ["jitter=-1ms"], ["loss=."]],
)
def test_figures_that_cannot_be(words: list[str]) -> None:
    with pytest.raises(WanError) as caught:
        change_of_words(words)
    assert caught.value.hint


def test_links_survive_json() -> None:
    link = LinkState(1.5, timedelta(microseconds=7), timedelta(milliseconds=1), 0.25, severed=True)
    assert LinkState.from_json(link.to_json()) == link
