"""Texts of others neither steer a terminal nor make up lines of a log."""

from __future__ import annotations

import logging
import sys

import pytest

from machine.terminal import LogFormatter, printable, printable_lines

CLEAR = "a\x1b[2J\x9b31m\x07\x7f\u202eb"
SPELLED = r"a\x1b[2J\x9b31m\x07\x7f\u202eb"


def test_control_characters_are_spelled_out() -> None:
    assert printable(CLEAR + "\n\tc") == SPELLED + r"\n\tc"


def test_lines_and_tabs_stay_where_they_may() -> None:
    assert printable_lines(f"{CLEAR}\n\t{CLEAR}\r\u2028") == f"{SPELLED}\n\t{SPELLED}" + r"\r\u2028"


@pytest.mark.parametrize("text", ["", "SELECT 'ä 日本 🚀'", "a b"])
def test_other_text_stays_as_it_is(text: str) -> None:
    assert printable(text) == printable_lines(text) == text


def test_a_message_of_the_log_is_one_line_and_a_traceback_is_several() -> None:
    formatter = LogFormatter("%(levelname)s %(message)s")
    try:
        raise ValueError("x")
    except ValueError:
        failure = sys.exc_info()
    record = logging.LogRecord("a", logging.INFO, "a.py", 1, "query %s", (f"{CLEAR}\nINFO all is well",), failure)
    lines = formatter.format(record).splitlines()
    assert lines[0] == rf"INFO query {SPELLED}\nINFO all is well"
    assert lines[-1] == "ValueError: x"
