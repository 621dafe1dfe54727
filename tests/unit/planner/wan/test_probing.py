from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from planner.values.links import Pair
from planner.values.topology import Link
from planner.wan.estimate import LinkRecord, fold_bandwidth, fold_echo
from planner.wan.probing import DEFAULT_SETTINGS, Budget, Probe, ProbeKind, ProbeState, choose_probes, full_probe
from planner.wan.samples import BandwidthSample, EchoSample, Method

T0 = datetime(2026, 1, 1, tzinfo=UTC)
SITES = ("us", "eu", "asia", "sa")
PAIRS = [(a, b) for a in SITES for b in SITES if a != b]


def state(
    records: dict[Pair, LinkRecord],
    *,
    now: datetime = T0,
    budgets: dict[Pair, Budget] | None = None,
    thorough_at: dict[Pair, datetime] | None = None,
    running: tuple[Pair, ...] = (),
) -> ProbeState:
    return ProbeState(records, budgets or {}, thorough_at or {}, running, now)


def known(seconds_ago: float = 0.0, method: Method = Method.IPERF3, now: datetime = T0) -> LinkRecord:
    return fold_bandwidth(LinkRecord(), BandwidthSample(now - timedelta(seconds=seconds_ago), method, 1e6))


def test_links_never_measured_come_first_and_no_site_takes_part_twice() -> None:
    probes = choose_probes(state(dict.fromkeys(PAIRS, LinkRecord())))
    assert len(probes) == 2
    assert len({site for probe in probes for site in probe.pair}) == 4
    assert all(probe.kind is ProbeKind.FULL for probe in probes)


def test_sites_of_running_probes_are_left_alone() -> None:
    probes = choose_probes(state(dict.fromkeys(PAIRS, LinkRecord()), running=(("us", "eu"),)))
    assert [set(probe.pair) for probe in probes] == [{"asia", "sa"}]


def test_a_fresh_link_is_not_probed_and_an_older_one_gets_a_train() -> None:
    pair = ("us", "eu")
    assert choose_probes(state({pair: known(3)}, thorough_at={pair: T0})) == ()
    (probe,) = choose_probes(state({pair: known(8)}, thorough_at={pair: T0}))
    assert probe.kind is ProbeKind.TRAIN


def test_a_suspect_below_gets_a_train() -> None:
    pair = ("us", "eu")
    for method in (Method.TRAIN, Method.IPERF3):
        suspect = fold_bandwidth(known(5), BandwidthSample(T0, method, 4e5))
        (probe,) = choose_probes(state({pair: suspect}, thorough_at={pair: T0}))
        assert probe.kind is ProbeKind.TRAIN


def test_a_suspect_above_gets_a_full_probe_or_what_can_be_paid_for() -> None:
    pair = ("us", "eu")
    suspect = fold_bandwidth(known(5), BandwidthSample(T0, Method.TRAIN, 2e6))
    (probe,) = choose_probes(state({pair: suspect}, thorough_at={pair: T0}))
    assert probe.kind is ProbeKind.FULL
    poor = {pair: Budget(timedelta(milliseconds=200), T0)}
    (probe,) = choose_probes(state({pair: suspect}, thorough_at={pair: T0}, budgets=poor))
    assert probe.kind is ProbeKind.TRAIN
    broke = {pair: Budget(timedelta(milliseconds=10), T0)}
    assert choose_probes(state({pair: suspect}, thorough_at={pair: T0}, budgets=broke)) == ()


def passive(seconds_ago: float, rate: float = 1e6) -> BandwidthSample:
    return BandwidthSample(T0 - timedelta(seconds=seconds_ago), Method.PASSIVE, rate)


def test_a_link_that_our_own_transfers_measure_is_not_probed() -> None:
    pair = ("us", "eu")
    assert choose_probes(state({pair: known(5, Method.PASSIVE)})) == ()
    assert choose_probes(state({pair: known(7, Method.PASSIVE)})) != ()
    confirmed = fold_bandwidth(known(700), passive(5))
    assert choose_probes(state({pair: confirmed}, thorough_at={pair: T0 - timedelta(seconds=700)})) == ()
    stale = fold_bandwidth(known(700), passive(7))
    (probe,) = choose_probes(state({pair: stale}, thorough_at={pair: T0 - timedelta(seconds=700)}))
    assert probe.kind is ProbeKind.FULL


def test_a_transfer_that_speaks_against_the_estimate_asks_for_a_probe() -> None:
    pair = ("us", "eu")
    record = fold_bandwidth(fold_bandwidth(known(20), passive(2)), passive(1, 4e5))
    (probe,) = choose_probes(state({pair: record}, thorough_at={pair: T0}))
    assert (probe.kind, probe.reason) == (ProbeKind.TRAIN, "a sample speaks against the estimate")


def test_a_budget_grows_up_to_its_limit() -> None:
    budget = Budget(timedelta(seconds=1), T0).after(Probe(("a", "b"), ProbeKind.FULL, timedelta(seconds=1), ""), T0)
    assert budget.now(T0 + timedelta(seconds=50)) == timedelta(seconds=1)
    assert budget.now(T0 + timedelta(hours=1)) == DEFAULT_SETTINGS.most_saved


def test_a_full_probe_is_as_long_as_slow_start_needs() -> None:
    """Recorded: a second is enough at 200 Mbit/s and 40 ms, and at 10 and 90; not at 20 and 120."""

    def seconds(mbit: float, rtt_ms: int) -> float:
        rtt = timedelta(milliseconds=rtt_ms)
        declared = Link("us", "eu", mbit * 125e3, rtt / 2)
        known_link = fold_echo(
            fold_bandwidth(LinkRecord(), BandwidthSample(T0, Method.IPERF3, mbit * 119.6e3)), EchoSample(T0, 3, 0, rtt)
        )
        (by_file, by_measurement) = (
            full_probe(("us", "eu"), record, declared, "").duration.total_seconds()
            for record in (LinkRecord(), known_link)
        )
        assert by_file == by_measurement
        return by_file

    assert [seconds(200, 40), seconds(10, 90), seconds(1000, 1)] == [1, 1, 1]
    assert [seconds(20, 120), seconds(50, 120), seconds(200, 80)] == [2, 2, 2]
    assert full_probe(("us", "eu"), LinkRecord(), None, "").duration == timedelta(seconds=1)


def test_a_link_that_became_slower_pays_for_the_time_it_was_filled() -> None:
    """A train made for 1 MB/s over a link of 250 kB/s takes 240 ms, not 60."""
    pair = ("us", "eu")
    train = Probe(pair, ProbeKind.TRAIN, DEFAULT_SETTINGS.train, "")
    budget = Budget(timedelta(milliseconds=100), T0).after(train, T0).settled(train, 60_000, 250e3)
    assert budget.saved == timedelta(milliseconds=-140)
    slow = {pair: fold_bandwidth(known(), BandwidthSample(T0, Method.TRAIN, 250e3))}
    assert choose_probes(state(slow, now=T0 + timedelta(seconds=9), budgets={pair: budget})) == ()
    (probe,) = choose_probes(state(slow, now=T0 + timedelta(seconds=11), budgets={pair: budget}))
    assert probe.kind is ProbeKind.TRAIN
    assert budget.settled(train, 60_000, 0.0) == budget


@settings(max_examples=15)
@given(st.integers(0, 2**32))
def test_probing_costs_at_most_its_share(seed: int) -> None:
    """Half an hour of links that change now and then, with a decision every second."""
    rng = random.Random(seed)
    records = dict.fromkeys(PAIRS, LinkRecord())
    budgets: dict[Pair, Budget] = {}
    thorough_at: dict[Pair, datetime] = {}
    truth = {pair: rng.uniform(1e5, 1e7) for pair in PAIRS}
    spent = dict.fromkeys(PAIRS, timedelta(0))
    duration = timedelta(minutes=30)
    for second in range(int(duration.total_seconds())):
        now = T0 + timedelta(seconds=second)
        if rng.random() < 0.02:
            truth[rng.choice(PAIRS)] *= rng.choice((0.5, 2.0))
        probes = choose_probes(ProbeState(records, budgets, thorough_at, (), now))
        sites = [site for probe in probes for site in probe.pair]
        assert len(sites) == len(set(sites))
        for probe in probes:
            full = probe.kind is ProbeKind.FULL
            method = Method.IPERF3 if full else Method.TRAIN
            sample = BandwidthSample(now, method, truth[probe.pair] * rng.uniform(0.95, 1.05))
            records[probe.pair] = fold_bandwidth(records[probe.pair], sample)
            before = budgets.get(probe.pair, Budget(DEFAULT_SETTINGS.most_saved, now))
            budgets[probe.pair] = before.after(probe, now)
            spent[probe.pair] += probe.duration
            if full:
                thorough_at[probe.pair] = now
    most = duration * DEFAULT_SETTINGS.most_share + DEFAULT_SETTINGS.most_saved
    assert max(spent.values()) <= most
    assert all(record.capacity_bytes_per_s is not None for record in records.values())
