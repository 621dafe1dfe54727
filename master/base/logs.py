"""Log lines in the form `key=value`, which can be searched by query and site."""

from __future__ import annotations

import json
import logging
import time

from machine.logs import Line, LogFormat, formatter
from machine.terminal import LogFormatter
from planner.graph.ids import log_fields

_FORMAT = "%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s %(message)s"


def line(what: str, /, **values: object) -> str:
    """`what`, followed by the values that are not empty; one with spaces or quotes is written as a JSON string."""
    pairs = (f"{key}={_value(value)}" for key, value in values.items() if value not in (None, ""))
    return Line(" ".join((what, *pairs)), values)


def configure(log_format: LogFormat = LogFormat.TEXT, level: int = logging.INFO) -> None:
    """Log to standard error, with times in UTC."""
    text = LogFormatter(_FORMAT, datefmt="%Y-%m-%dT%H:%M:%S")
    text.converter = time.gmtime
    handler = logging.StreamHandler()
    handler.setFormatter(formatter(log_format, text, log_fields))
    logging.basicConfig(level=level, handlers=[handler], force=True)


def _value(value: object) -> str:
    text = str(value)
    plain = text.isprintable() and not any(c in text for c in ' "=')
    return text if plain else json.dumps(text, ensure_ascii=False)
