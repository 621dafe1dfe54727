from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from planner.wan.estimate import LinkRecord, fold_bandwidth, fold_echo, fold_use
from planner.wan.samples import BandwidthSample, EchoSample, Method, UseSample
from planner.wan.snapshot import snapshot
from tests.unit.planner.build import topology_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def test_measured_figures_where_there_are_any() -> None:
    record = fold_bandwidth(LinkRecord(), BandwidthSample(NOW - timedelta(seconds=4), Method.IPERF3, 5e5))
    record = fold_use(record, UseSample(NOW, 4.75e5))
    record = fold_echo(record, EchoSample(NOW, 3, 0, timedelta(milliseconds=81)))
    view = snapshot(topology_of("us", "eu"), {("us", "eu"): record}, NOW)
    link = view.link("us", "eu")
    assert link is not None
    assert (link.figures.capacity_bytes_per_s, link.figures.available_bytes_per_s) == (5e5, 2.5e4)
    assert (link.figures.age, link.method, link.congested) == (timedelta(seconds=4), Method.IPERF3, True)
    assert link.rtt == timedelta(milliseconds=81)
    other = view.link("eu", "us")
    assert other is not None
    figures = other.figures
    assert (figures.capacity_bytes_per_s, figures.confidence, figures.age, other.congested) == (1e6, 0.0, None, False)
    assert view.link("us", "us") is None


def test_use_counts_against_a_declared_link_too() -> None:
    record = fold_use(LinkRecord(), UseSample(NOW, 9.5e5))
    link = snapshot(topology_of("us", "eu"), {("us", "eu"): record}, NOW).link("us", "eu")
    assert link is not None
    assert link.figures.available_bytes_per_s == pytest.approx(5e4)
    assert link.congested
