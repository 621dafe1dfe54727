from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evidence.page import HEAD, PageError, Section, origins, put, read_page, write_page

ONE = Section("one", "0123456789ab, clean", "## One\n\n| a |\n| --- |\n| 5 |")
TWO = Section("two", "0123456789ab, clean", "## Two", {"findings": {"two.speed": [1.5, ""]}})


def page_of(directory: Path, *sections: Section) -> Path:
    page = directory / "page.md"
    write_page(page, sections)
    return page


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    assert read_page(page_of(tmp_path, ONE, TWO)) == [ONE, TWO]
    assert read_page(tmp_path / "none.md") == []


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"])))
def test_a_digest_goes_by_name_commit_and_text(text: str) -> None:
    digests = {ONE.digest, replace(ONE, name="other").digest, replace(ONE, commit="ffff").digest}
    assert len(digests) == 3
    assert (replace(ONE, text=text).digest == ONE.digest) == (text.strip() == ONE.text)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("| 5 |", "| 6 |"),
        ("## One", "## One, edited"),
        ("begin one: commit 0123456789ab, clean", "begin one: commit 0123456789ab, changed"),
        ("[1.5,", "[1.6,"),
        ("| 5 |\n", "| 5 |\n\n"),
    ],
)
def test_an_edit_by_hand_is_found(tmp_path: Path, old: str, new: str) -> None:
    page = page_of(tmp_path, ONE, TWO)
    text = page.read_text()
    assert old in text
    page.write_text(text.replace(old, new))
    with pytest.raises(PageError, match="is not as a tool wrote it"):
        read_page(page)


@pytest.mark.parametrize("typed", ["Figures of 5 s.\n", "<!-- begin three: commit x -->\n5\n<!-- end three -->\n"])
def test_nothing_stands_outside_the_sections(tmp_path: Path, typed: str) -> None:
    page = page_of(tmp_path, ONE)
    page.write_text(page.read_text() + typed)
    with pytest.raises(PageError, match="text outside the sections"):
        read_page(page)


def test_a_section_stands_once(tmp_path: Path) -> None:
    with pytest.raises(PageError, match="two sections of one name"):
        read_page(page_of(tmp_path, ONE, ONE))


def test_a_section_takes_the_place_of_its_last_one_and_the_head_is_first() -> None:
    new, head = replace(ONE, text="again"), Section(HEAD, "c", "# Page")
    assert put([], ONE) == [ONE]
    assert put([ONE, TWO], new) == [new, TWO]
    assert put([ONE, TWO], head) == [head, ONE, TWO]
    assert put([head, ONE], replace(head, text="# New")) == [replace(head, text="# New"), ONE]


def test_a_page_says_of_which_commits_it_is() -> None:
    head = Section(HEAD, "other", "# Page")
    assert origins([head, ONE, TWO]) == "All sections are of one commit: 0123456789ab, clean."
    mixed = origins([head, ONE, replace(TWO, commit="0123456789ab, changed")])
    assert "**not of one commit**" in mixed
    assert "| one | unknown, changed |" in origins([head, replace(ONE, commit="unknown, changed")])
    assert "| one | 0123456789ab, clean |\n| two | 0123456789ab, changed |" in mixed
