"""Makes foreign text safe to print on a terminal or write to a log: no control characters, no forged lines."""

from __future__ import annotations

import logging
import re
import unicodedata

_SPELLED = ("Cc", "Cf", "Zl", "Zp")
_BETWEEN = re.compile(r"[^\n\t]+")


def printable(text: str) -> str:
    """The text in one line, with control characters spelled out."""
    if text.isprintable():
        return text
    return "".join(_spelled(char) if unicodedata.category(char) in _SPELLED else char for char in text)


def printable_lines(text: str) -> str:
    """The same for a text that may have several lines, and tabs."""
    return text if text.isprintable() else _BETWEEN.sub(lambda part: printable(part.group()), text)


class LogFormatter(logging.Formatter):
    """A message is one line, whatever texts of users are in it; a traceback keeps its lines."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        record.message = printable(record.message)
        return super().formatMessage(record)


def _spelled(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
