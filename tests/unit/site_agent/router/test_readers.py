from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from site_agent.base.files import Files
from site_agent.router.readers import Reader, Readers, load_readers, save_readers

NOBODY = Readers("ewr", "q1")


def test_the_slowest_reader_decides_what_is_needed() -> None:
    two = NOBODY.joined("a", keeps=False).joined("b", keeps=False)
    assert (two.needed_here(), two.needed_there(9)) == (0, 0)
    assert two.acknowledged("a", 6).needed_there(9) == 0
    both = two.acknowledged("a", 6).acknowledged("b", 3)
    assert (both.needed_here(), both.needed_there(9)) == (4, 4)
    assert both.left("b").needed_here() == 7


def test_a_reader_that_keeps_needs_all_here_and_nothing_there() -> None:
    keeper = NOBODY.joined("results", keeps=True)
    assert (keeper.needed_here(), keeper.needed_there(9)) == (0, 9)
    both = keeper.joined("a", keeps=False).acknowledged("a", 3)
    assert (both.needed_here(), both.needed_there(9)) == (0, 4)


def test_readers_ahead_of_the_slowest_are_told() -> None:
    two = NOBODY.joined("a", keeps=False).joined("b", keeps=False)
    assert two.ahead_there(9) == {}
    assert two.acknowledged("a", 6).ahead_there(9) == {"a": 7}
    assert two.acknowledged("a", 6).acknowledged("b", 3).ahead_there(9) == {"a": 7}
    assert two.acknowledged("a", 6).acknowledged("b", 6).ahead_there(9) == {}
    kept = two.joined("results", keeps=True).acknowledged("a", 6)
    assert kept.ahead_there(9) == {"a": 7, "results": 9}
    assert NOBODY.joined("results", keeps=True).ahead_there(9) == {}


def test_what_is_no_news_changes_nothing() -> None:
    one = NOBODY.joined("a", keeps=False).acknowledged("a", 3)
    assert one.acknowledged("a", 2) is one
    assert one.acknowledged("stranger", 8) is one
    assert one.joined("a", keeps=False) is one
    assert NOBODY.needed_here() == 0


def test_names_survive_and_cursors_do_not(tmp_path: Path) -> None:
    assert load_readers(tmp_path) is None
    readers = NOBODY.joined("a", keeps=False).joined("b", keeps=True).acknowledged("a", 3)
    save_readers(Files(), tmp_path, readers)
    assert load_readers(tmp_path) == Readers("ewr", "q1", {"a": Reader(), "b": Reader(keeps=True)})


def test_it_survives_that_a_producer_knows_that_all_is_here(tmp_path: Path) -> None:
    readers = replace(NOBODY.joined("a", keeps=True), told_end=True)
    save_readers(Files(), tmp_path, readers)
    assert load_readers(tmp_path) == readers
