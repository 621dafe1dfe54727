from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from planner.values.errors import InvalidDefinitionError
from planner.values.topology import Link, Location, Site, parse_topology

TWO: dict[str, Any] = {"sites": {"a": None, "b": {"slots": 2, "address": "h:1"}}}


def with_link(**link: object) -> dict[str, Any]:
    return TWO | {"links": [{"from": "a", "to": "b"}, {"from": "b", "to": "a"} | link]}


def test_every_ordered_pair_has_a_link() -> None:
    topology = parse_topology(TWO | {"gateway": "b"})
    assert topology.gateway == "b"
    assert topology.sites == {"a": Site("a"), "b": Site("b", 2, "h:1")}
    default = (12.5e6, timedelta(milliseconds=50))
    assert topology.links == {("a", "b"): Link("a", "b", *default), ("b", "a"): Link("b", "a", *default)}
    assert topology.link("a", "a") is None


def test_default_link_fills_what_is_left_out() -> None:
    data = {
        "sites": {"a": {}, "b": {}, "c": {}},
        "links": [
            {"from": "a", "to": "b", "bandwidth": "20Mbit/s", "both": True},
            {"from": "c", "to": "a", "latency": "0.2s"},
        ],
        "default_link": {"latency": "10ms"},
    }
    topology = parse_topology(data)
    assert topology.gateway == "a"
    assert topology.link("a", "b") == Link("a", "b", 2.5e6, timedelta(milliseconds=10))
    assert topology.link("b", "a") == Link("b", "a", 2.5e6, timedelta(milliseconds=10))
    assert topology.link("c", "a") == Link("c", "a", 12.5e6, timedelta(milliseconds=200))
    assert topology.link("a", "c") == Link("a", "c", 12.5e6, timedelta(milliseconds=10))


@pytest.mark.parametrize(
    ("text", "bytes_per_s"),
    [
        ("20Mbit/s", 2.5e6),
        ("1 Gbit/s", 125e6),
        ("800kbit/s", 1e5),
        ("10MB/s", 1e7),
        ("1.5 kB/s", 1500.0),
        ("8bit/s", 1.0),
    ],
)
def test_bandwidths(text: str, bytes_per_s: float) -> None:
    link = parse_topology(with_link(bandwidth=text)).link("b", "a")
    assert link is not None
    assert link.bandwidth_bytes_per_s == pytest.approx(bytes_per_s)


@pytest.mark.parametrize(
    ("text", "latency"),
    [("40ms", timedelta(milliseconds=40)), ("0.2s", timedelta(milliseconds=200)), ("0ms", timedelta(0))],
)
def test_latencies(text: str, latency: timedelta) -> None:
    link = parse_topology(with_link(latency=text)).link("b", "a")
    assert link is not None
    assert link.latency == latency


@pytest.mark.parametrize(("text", "loss"), [("0.5%", 0.005), ("100%", 1.0), (0.02, 0.02), (0, 0.0)])
def test_loss(text: object, loss: float) -> None:
    link = parse_topology(with_link(loss=text, jitter="3ms")).link("b", "a")
    assert link is not None
    assert link.loss == pytest.approx(loss)
    assert link.jitter == timedelta(milliseconds=3)


@pytest.mark.parametrize(
    ("data", "key"),
    [
        (3, "the topology"),
        ({}, "sites"),
        ({"sites": {}}, "sites"),
        ({"sites": ["a"]}, "sites"),
        (TWO | {"colour": "red"}, "colour"),
        (TWO | {"gateway": "c"}, "gateway"),
        ({"sites": {"a": {"slot": 1}}}, "sites.a.slot"),
        ({"sites": {"a": {"slots": 0}}}, "sites.a.slots"),
        ({"sites": {"a": {"slots": True}}}, "sites.a.slots"),
        ({"sites": {"a": {"address": 5}}}, "sites.a.address"),
        ({"sites": {"a/b": {}}}, "sites.a/b"),
        (TWO | {"links": {"a": "b"}}, "links"),
        (TWO | {"links": ["a"]}, "links[0]"),
        (with_link(to="c"), "links[1].to"),
        (with_link(**{"from": None}), "links[1].from"),
        (with_link(to="b"), "links[1].to"),
        (with_link(both="yes"), "links[1].both"),
        (with_link(both=True), "links[1]"),
        (with_link(speed="1Mbit/s"), "links[1].speed"),
        *(
            (with_link(bandwidth=value), "links[1].bandwidth")
            for value in (20, "20", "-1Mbit/s", "0Mbit/s", "1Mbit", "fast")
        ),
        *((with_link(latency=value), "links[1].latency") for value in (40, "-3ms", "40", "1 hour", "3%", None)),
        *((with_link(loss=value), "links[1].loss") for value in ("101%", 2, -0.1, "some", True, None, float("nan"))),
        (with_link(jitter=5), "links[1].jitter"),
        *((with_link(price_per_gb=v) | {"currency": "USD"}, "links[1].price_per_gb") for v in (-1, "2", True, 1e10)),
        (with_link(price_per_gb=0.02), "currency"),
        *((TWO | {"currency": value}, "currency") for value in ("usd", "EURO", 5, None)),
        *(({"sites": {"a": {"label": value}}}, "sites.a.label") for value in (5, "x" * 101, "two\nlines")),
        ({"sites": {"a": {"location": [1, 2]}}}, "sites.a.location"),
        ({"sites": {"a": {"location": {"lat": 91, "lon": 0}}}}, "sites.a.location.lat"),
        ({"sites": {"a": {"location": {"lat": 1}}}}, "sites.a.location.lon"),
        (TWO | {"default_link": {"latency": "x"}}, "default_link.latency"),
        (TWO | {"default_link": "fast"}, "default_link"),
    ],
)
def test_errors_name_the_key_and_the_right_form(data: object, key: str) -> None:
    with pytest.raises(InvalidDefinitionError) as caught:
        parse_topology(data)
    assert caught.value.ids == {"key": key}
    assert key in caught.value.message
    assert caught.value.hint


def test_prices_places_and_names_for_people() -> None:
    place = {"label": "New York", "location": {"lat": 40.7, "lon": -74}}
    data = {
        "currency": "USD",
        "sites": {"a": place, "b": None},
        "links": [{"from": "a", "to": "b", "price_per_gb": 0.09}],
        "default_link": {"price_per_gb": 0.02},
    }
    topology = parse_topology(data)
    assert (topology.sites["a"].label, topology.sites["a"].location) == ("New York", Location(40.7, -74.0))
    assert topology.cost([("a", "b", 2_000_000_000), ("b", "a", 500_000_000)]) == pytest.approx(0.19)
    assert parse_topology(TWO).cost([("a", "b", 10**12)]) is None
