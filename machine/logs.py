"""Lines of a process's log: as text for people, or as JSON objects with the same ids for programs.

The fields of a JSON line come from the message's pairs `key=value`: from the placeholders of its format, `site=%s`, and
from a `Line`, whose values are known. So no text of a user can make up a field.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from machine.terminal import LogFormatter, printable_lines

LOG_FORMAT_HELP = "log lines as text for people or as one JSON object each (default: text)"

_PLACEHOLDER = re.compile(r"(?:\b(\w+)=)?%[-#0 +]*\d*(?:\.\d+)?([a-zA-Z%])")
_OWN = ("time", "level", "logger", "message", "error")

IdParts = Callable[[str], Mapping[str, str]]
"""Takes the id of a task or channel and returns its parts as fields; no fields for any other text."""


def _no_parts(_: str) -> Mapping[str, str]:
    return {}


class LogFormat(Enum):
    """The forms of a log's lines."""

    TEXT = "text"
    JSON = "json"


class Line(str):
    """A log message made of pairs `key=value`, which it keeps for the JSON form."""

    pairs: Mapping[str, object]

    def __new__(cls, text: str, pairs: Mapping[str, object]) -> Line:
        made = super().__new__(cls, text)
        made.pairs = pairs
        return made


class JsonFormatter(logging.Formatter):
    """One JSON object a line, in ASCII: control characters and all others beyond are written as escapes."""

    def __init__(self, parts_of: IdParts = _no_parts) -> None:
        super().__init__()
        self._parts_of = parts_of

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC)
        content: dict[str, object] = {
            "time": at.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields = fields_of(record)
        ids = self._parts_of(str(fields.get("task") or fields.get("channel") or ""))
        for name, value in {**ids, **fields}.items():
            content[f"{name}_" if name in _OWN else name] = value
        if record.exc_info and not record.exc_text:
            record.exc_text = self.formatException(record.exc_info)
        if record.exc_text:
            content["error"] = printable_lines(record.exc_text)
        return json.dumps(content, default=str)


def fields_of(record: logging.LogRecord) -> dict[str, object]:
    """The pairs of a record's message."""
    if isinstance(record.msg, Line):
        return {name: _plain(value) for name, value in record.msg.pairs.items() if value not in (None, "")}
    if not isinstance(record.msg, str) or not isinstance(record.args, tuple):
        return {}
    names = [match[1] for match in _PLACEHOLDER.finditer(record.msg) if match[2] != "%"]
    if len(names) != len(record.args):
        return {}
    return {name: _plain(value) for name, value in zip(names, record.args, strict=True) if name}


def formatter(log_format: LogFormat, text: LogFormatter, parts_of: IdParts = _no_parts) -> logging.Formatter:
    """The formatter of a log: `text`, or a JSON one that adds the parts of ids of tasks and channels as fields."""
    return JsonFormatter(parts_of) if log_format is LogFormat.JSON else text


def _plain(value: object) -> Any:
    return value if isinstance(value, bool | int | float | str) else str(value)
