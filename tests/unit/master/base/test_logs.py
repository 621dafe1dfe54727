"""Log lines."""

from __future__ import annotations

from master.base.logs import line


def test_values_are_pairs_and_empty_ones_are_left_out() -> None:
    assert line("query state", query="q-1", was="", now="running", at=None, rows=0) == (
        "query state query=q-1 now=running rows=0"
    )


def test_values_with_blanks_are_quoted_and_stay_on_one_line() -> None:
    assert line("x", reason='two\nlines "quoted"') == 'x reason="two\\nlines \\"quoted\\""'
