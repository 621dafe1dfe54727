"""Log lines as JSON."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from machine.logs import JsonFormatter
from master.base.logs import line


def logged(message: object, *args: object, error: Exception | None = None) -> dict[str, Any]:
    info = (type(error), error, error.__traceback__) if error else None
    record = logging.LogRecord("site_agent.agent.runtime", logging.INFO, "f.py", 1, message, args, info)
    text = JsonFormatter().format(record)
    assert text.isascii()
    assert text.isprintable()
    found = json.loads(text)
    assert isinstance(found, dict)
    return {name: value for name, value in found.items() if name not in ("time", "level", "logger")}


def test_the_placeholders_of_a_format_are_fields() -> None:
    assert logged("slots not followed site=%s: %s attempt=%d", "us", "later", 3) == {
        "message": "slots not followed site=us: later attempt=3",
        "site": "us",
        "attempt": 3,
    }


def test_the_pairs_of_a_line_are_fields_and_empty_ones_are_left_out() -> None:
    assert logged(line("query state", query="q-1", was="", now="running", rows=0)) == {
        "message": "query state query=q-1 now=running rows=0",
        "query": "q-1",
        "now": "running",
        "rows": 0,
    }


def test_parts_of_ids_are_fields() -> None:
    record = logging.LogRecord("x", logging.INFO, "f.py", 1, "task started task=%s", ("q-0001-ab.s1.p0",), None)
    found = json.loads(JsonFormatter(lambda text: {"query": text.partition(".")[0]}).format(record))
    assert (found["query"], found["task"]) == ("q-0001-ab", "q-0001-ab.s1.p0")


def test_texts_of_users_make_up_neither_fields_nor_lines() -> None:
    found = logged("epoch failed task=%s reason=%s", "t", 'x query=q-9 "}\n{"level": "ERROR"\x1b[2J\u2028')
    assert set(found) == {"message", "task", "reason"}
    assert found["reason"].endswith("\u2028")


@pytest.mark.parametrize("message", ["100 % of it", "%s%s", "ok=%s %d"])
def test_a_format_that_is_none_has_no_fields(message: str) -> None:
    record = logging.LogRecord("x", logging.INFO, "f.py", 1, message, None, None)
    assert json.loads(JsonFormatter().format(record))["message"] == message


def test_fields_do_not_take_the_place_of_the_lines_own() -> None:
    found = logged(line("call failed", error="e-1", message="m"))
    assert (found["error_"], found["message_"]) == ("e-1", "m")
    assert found["message"] == "call failed error=e-1 message=m"


def test_a_traceback_is_one_field() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError as error:
        found = logged("failed", error=error)
    assert found["error"].startswith("Traceback")
    assert found["error"].endswith("ValueError: two\nlines")
