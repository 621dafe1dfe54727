from __future__ import annotations

from collections import Counter
from pathlib import Path

from benchmarks.wordcount import (
    FULL,
    SCHEDULERS,
    SITES,
    SMALL,
    Job,
    Outcome,
    _parts,
    declarations,
    expected,
    shard_sites,
    write_text,
)


def outcome(scheduler: str, *, local: int = 6, right: bool = True, streamed: int = 5) -> Outcome:
    return Outcome(scheduler, tuple(Job(n, 10.0 + n, local, 8 - local, 10**6, right) for n in FULL.jobs), (streamed, 9))


def test_the_text_of_the_full_run_is_large_enough() -> None:
    assert FULL.text_bytes >= 200e6
    assert set(FULL.jobs) == set(range(FULL.tables))


def test_most_shards_of_a_table_lie_at_its_home() -> None:
    for number, home in enumerate(SITES):
        places = Counter(shard_sites(number, 8))
        assert places[home] == 5
        assert sorted(places.values()) == [1, 2, 5]


def test_text_is_written_where_it_is_declared_and_counted_as_a_whole(tmp_path: Path) -> None:
    write_text(tmp_path, SMALL)
    for number in range(SMALL.tables):
        files = sorted(tmp_path.glob(f"*/text{number}/*.txt"))
        assert len(files) == SMALL.shards
        words = Counter(word for path in files for word in path.read_text().split())
        assert expected(tmp_path, number) == words
        for path in files:
            assert f"'path' = '{path.parent}'" in declarations(tmp_path, SMALL)


def test_the_report_has_a_line_for_each_scheduler_and_each_job() -> None:
    outcomes = [outcome(SCHEDULERS[0]), outcome(SCHEDULERS[1], local=4)]
    text = "\n".join(_parts(FULL, outcomes, 2))
    assert "| lease-aware | 75.0% | 11.5 s |" in text
    assert "| first-come | 50.0% |" in text
    assert text.count("| 10.0 s, 6 of 8 | 10.0 s, 4 of 8 |") == FULL.jobs.count(0)


def test_a_wrong_result_or_a_stream_that_stood_still_is_no_success() -> None:
    assert outcome("a").right
    assert not outcome("a", right=False).right
    assert not outcome("a", streamed=0).right
