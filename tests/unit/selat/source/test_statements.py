from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from selat.source.statements import split_statements


@pytest.mark.parametrize(
    ("text", "statements", "complete"),
    [
        ("", (), True),
        ("  \n", (), True),
        ("-- only a comment", (), True),
        ("SELECT 1", ("SELECT 1",), False),
        ("SELECT 1;", ("SELECT 1",), True),
        ("SELECT 1; -- done", ("SELECT 1",), True),
        ("a; b", ("a", "b"), False),
        (";;a;;", ("a",), True),
        ("SELECT ';'; b;", ("SELECT ';'", "b"), True),
        ('SELECT ";";', ('SELECT ";"',), True),
        ("SELECT `a;b`;", ("SELECT `a;b`",), True),
        (r"SELECT 'it\'s;';", (r"SELECT 'it\'s;'",), True),
        ("SELECT 'it''s;';", ("SELECT 'it''s;'",), True),
        ("SELECT 1 -- a; b\n + 2;", ("SELECT 1 -- a; b\n + 2",), True),
        ("SELECT /* ; */ 1;", ("SELECT /* ; */ 1",), True),
        ("SELECT /* a /* ; */ b; */ 1;", ("SELECT /* a /* ; */ b; */ 1",), True),
        ("SELECT 'open;", ("SELECT 'open;",), False),
        ("SELECT 1; /* open;", ("SELECT 1", "/* open;"), False),
        ("SELECT 4 / 2 - -1;", ("SELECT 4 / 2 - -1",), True),
    ],
)
def test_split(text: str, statements: tuple[str, ...], complete: bool) -> None:
    split = split_statements(text)
    assert (split.statements, split.complete) == (statements, complete)


_PIECE = st.sampled_from(["SELECT 1", "x", "'a;b'", "`c;d`", "/* e;f */ g", "h -- i;j\n k"])


@given(st.lists(st.lists(_PIECE, min_size=1).map(" ".join), min_size=1))
def test_what_is_joined_by_semicolons_comes_apart_again(statements: list[str]) -> None:
    split = split_statements(";\n".join(statements) + ";")
    assert list(split.statements) == statements
    assert split.complete


@given(st.text(alphabet="ab;'\"`-/*\n\\ "))
def test_any_text_comes_apart(text: str) -> None:
    split = split_statements(text)
    assert all(statement in text for statement in split.statements)
