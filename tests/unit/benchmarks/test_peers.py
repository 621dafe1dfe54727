from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from benchmarks import flink, peer_engines
from benchmarks.peer_engines import Peer, Stop
from benchmarks.peers import Live, Run, _delays, _over_faster, _parts, results_of, wanted_of, write_file

START = datetime(2026, 1, 1, tzinfo=UTC)


class Written(Peer):
    """What is in a directory."""

    form = "csv"

    def run(self, files: Path, output: Path) -> None:
        raise AssertionError("nothing runs")

    def follow(self, files: Path, output: Path) -> Stop:
        raise AssertionError("nothing runs")


def run(rows_per_s: float, *, right: bool = True) -> Run:
    return Run(int(rows_per_s), 1.0, 2.0, 2**20, right)


def test_files_have_their_rows_within_their_span(tmp_path: Path) -> None:
    write_file(tmp_path / "0.csv", START, 20, 1000)
    wanted = wanted_of(tmp_path)
    assert {end - START.timestamp() for end, _ in wanted} == {10, 20}
    assert sum(n for n, _ in wanted.values()) == 1000
    assert [path.name for path in tmp_path.iterdir()] == ["0.csv"]


def test_results_are_those_of_files_that_may_be_read_and_one_twice_is_wrong(tmp_path: Path) -> None:
    row = "2026-01-01 00:00:10.000,page-1,4,2.5\n"
    (tmp_path / "a.csv").write_text(row + "2100-01-01 00:00:10.000,last,1,0\n")
    (tmp_path / ".b.csv").write_text("half of a")
    peer = Written(tmp_path)
    assert results_of(peer, tmp_path) == {(START.timestamp() + 10, "page-1"): (4, 2.5)}
    (tmp_path / "c.csv").write_text(row)
    assert results_of(peer, tmp_path) == {}


def test_a_window_is_there_with_its_last_file(tmp_path: Path) -> None:
    for name, page in (("a", "1"), ("b", "2")):
        (tmp_path / f"{name}.csv").write_text(f"2026-01-01 00:00:10.000,page-{page},4,2.5\n")
    end_s = START.timestamp() + 10
    seen_s = {tmp_path / "a.csv": end_s + 1, tmp_path / "b.csv": end_s + 3}
    assert _delays(Written(tmp_path), seen_s, end_s - 1, end_s + 1) == [3]
    assert _delays(Written(tmp_path), seen_s, end_s + 1, end_s + 2) == []


def test_the_faster_peer_counts_round_by_round() -> None:
    runs = {"selat": [run(6), run(8)], "spark": [run(3), run(8)], "flink": [run(2), run(16)]}
    assert _over_faster(runs) == (6 / 3 + 8 / 16) / 2


def test_a_peer_that_is_not_installed_is_named_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer_engines, "find_flink", lambda: None)
    assert {key for key, reason in peer_engines.installed().items() if reason} == {"flink"}
    live = Live([1.0, 2.0], 0.5, right=True)
    text = "\n".join(_parts({"selat": [run(6)]}, {"selat": live}, {"flink": flink.MISSING}))
    assert f"Flink was left out. {flink.MISSING}." in text


def test_wrong_results_are_on_the_page() -> None:
    live = Live([1.0], 0.5, right=True)
    assert "**no**" in "\n".join(_parts({"selat": [run(6, right=False)]}, {"selat": live}, {}))
