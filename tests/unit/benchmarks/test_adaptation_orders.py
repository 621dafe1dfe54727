from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import adaptation_orders
from benchmarks.adaptation_orders import TOPOLOGY, TRIES, DisturbedError, _undisturbed
from benchmarks.constrained import (
    BUSY,
    LINK,
    ORDERS,
    PAIR,
    QUERIES,
    SITES,
    Move,
    Need,
    Play,
    covered_s,
    findings,
    parts_of,
    submissions,
    to_the_end,
    wrong_windows,
)
from benchmarks.watching import Delay
from selat.local.errors import DevError

CALM = tuple(Delay(query, end_s, 1.0, 10) for query in QUERIES for end_s in range(-50, 100, 10))
NEEDS = {query: Need(10_000.0, 1e6) for query in QUERIES}


def play_of(order: str, *late: Delay, moves: int = 1, size: int = 1_000_000) -> Play:
    """A play with delays of 1 s but for these windows."""
    of = {(one.query, one.end_s) for one in late}
    delays = (*(one for one in CALM if (one.query, one.end_s) not in of), *late)
    moved = tuple(Move("pages", f"m{n}.p0", "us", "eu", 30.0, 8.0, moved=True) for n in range(moves))
    return Play(order, tuple(QUERIES), 100.0, delays, size, moved, (), NEEDS)


def test_time_that_several_windows_were_missing_in_counts_once() -> None:
    # 4 s are normal: twice the median, and two epochs.
    play = play_of("nako", Delay("pages", 20, 24.0, 10), Delay("pages", 30, 16.0, 10), Delay("pages", 60, 5.0, 10))
    assert play.constrained_s("pages") == pytest.approx((46 - 24) + (65 - 64))
    assert play.constrained_s("visitors") == 0
    assert play.mean_constrained_s == pytest.approx(23 / len(QUERIES))


def test_spans_are_counted_once_and_none_backwards() -> None:
    assert covered_s([]) == 0
    assert covered_s([(5, 3), (10, 20), (12, 15), (18, 25), (30, 31)]) == 16


def test_a_window_that_never_came_is_late_until_the_end() -> None:
    delays = [Delay("pages", end_s, 1.0, 10) for end_s in (-17.5, -7.5, 2.5)]
    # It came when nobody counted any more.
    delays.append(Delay("pages", 22.5, 17.6, 10))
    found = to_the_end(delays, 10, 40.0)
    # The one that ends at 32.5 s is not missed yet.
    assert [(one.end_s, one.delay_s, one.rows) for one in found[3:]] == [(12.5, 27.5, 0), (22.5, 17.5, 0)]


def test_rows_are_counted_window_by_window() -> None:
    whole = [4] * 3875 + [BUSY + 1] * 500
    pages = {20: whole, 30: [20_000]}
    assert wrong_windows({"pages": pages, PAIR[1]: {20: [BUSY + 1] * 500}}) == ()
    assert wrong_windows({"visitors": {20: [20_001]}}) == ("visitors at 20 s",)
    assert wrong_windows({"sessions": {20: [60_000], 40: [60_000]}}) == ("sessions at 30 s is missing",)
    assert wrong_windows({"pages": pages, PAIR[1]: {20: [BUSY + 1] * 499}}) == (f"{PAIR[1]} at 20 s",)


def test_each_round_has_its_order_of_submission() -> None:
    rounds = list(submissions(3))
    assert rounds == list(submissions(3))
    assert len(set(rounds)) > 1
    for one in rounds:
        assert sorted(one) == sorted(QUERIES)
        assert one.index(PAIR[1]) == one.index(PAIR[0]) + 1


def test_nako_is_held_against_the_better_order_and_its_gain_against_the_worse() -> None:
    late = Delay("pages", 20, 24.0, 10)
    plays = [
        play_of("nako", late),
        play_of("first", replace(late, delay_s=34.0), moves=2, size=2_000_000),
        play_of("slo", replace(late, delay_s=14.0), size=500_000),
    ]
    found = {key: one.value for key, one in findings(plays).items()}
    assert found["gain"] == pytest.approx(30 / 20)
    assert found["time"] == pytest.approx(20 / 10)
    assert (found["moves"], found["bytes"], found["right"]) == (1, 2, 1)
    assert found["delay"] == pytest.approx(plays[0].delay_s / plays[2].delay_s)
    assert findings(plays[:1]) == {}


def test_orders_that_are_never_constrained_have_no_gain() -> None:
    found = findings([play_of(order) for order in ORDERS])
    assert (found["gain"].value, found["time"].value) == (1, 1)


def test_the_report_has_each_round_and_what_went_wrong() -> None:
    plays = [replace(play_of(order), submitted=one) for one in submissions(2) for order in ORDERS]
    text = "\n".join(parts_of(plays))
    assert "| nako | 1.0 (1, 1) | 0 s (0, 0) | 1.0 s (1.0, 1.0) | 1.0 MB (1.0, 1.0) |" in text
    assert text.count("    - slo: pages m0.p0 us > eu at 30 s (8 s)") == 2
    assert "**wrong**" not in text
    assert "**wrong**: nako: pages at 20 s" in "\n".join(parts_of([replace(plays[0], wrong=("pages at 20 s",))]))


def test_the_link_is_one_of_the_topology() -> None:
    assert set(LINK) <= set(SITES)
    assert all(f"{site}:" in TOPOLOGY for site in SITES)


@pytest.mark.parametrize("disturbed", [0, TRIES - 1, TRIES])
def test_a_play_in_which_something_moves_too_early_is_played_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, disturbed: int
) -> None:
    roots: list[Path] = []

    def played(root: Path, order: str, submitted: Sequence[str], times: argparse.Namespace) -> Play:
        roots.append(root)
        if len(roots) <= disturbed:
            raise DisturbedError("m1 moved before the cut")
        return play_of(order)

    monkeypatch.setattr(adaptation_orders, "run", played)
    if disturbed == TRIES:
        with pytest.raises(DevError, match="moved before the cut"):
            _undisturbed(tmp_path / "0", "slo", tuple(QUERIES), argparse.Namespace())
    else:
        assert _undisturbed(tmp_path / "0", "slo", tuple(QUERIES), argparse.Namespace()) == play_of("slo")
    assert len(set(roots)) == min(disturbed + 1, TRIES)
