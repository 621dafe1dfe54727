from __future__ import annotations

import subprocess
from pathlib import Path

from evidence.provenance import PAGES, UNKNOWN, Code, code_of, facts


def git(checkout: Path, *arguments: str) -> None:
    own = ["-c", "user.name=n", "-c", "user.email=e@example.org"]
    subprocess.run(["git", "-C", str(checkout), *own, *arguments], check=True, capture_output=True)


def test_a_page_that_is_written_leaves_the_tree_clean_and_other_changes_do_not(tmp_path: Path) -> None:
    git(tmp_path, "init")
    (tmp_path / "code.py").write_text("1")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "one")
    first = code_of(tmp_path)
    assert first.clean
    assert len(first.commit) == 12
    pages = tmp_path / PAGES
    pages.mkdir(parents=True)
    (pages / "page.md").write_text("# Page")
    assert code_of(tmp_path) == first
    (tmp_path / "new.py").write_text("2")
    assert code_of(tmp_path) == Code(first.commit, clean=False)


def test_outside_git_the_commit_is_unknown(tmp_path: Path) -> None:
    assert code_of(tmp_path) == Code(UNKNOWN, clean=False)


def test_the_facts_of_a_run() -> None:
    text = facts(Code("0123456789ab", clean=False), "python -m x", {"Test tool": "pytest"})
    assert text.startswith("- Commit: 0123456789ab, **tree changed**\n- Date: 20")
    assert "Test tool " in text
    assert text.endswith("- Command: `python -m x`")
