"""Where statements begin and end in a text: quotes and comments, nothing more of SQL."""

from __future__ import annotations

import re
from dataclasses import dataclass

_TOKEN = re.compile(
    r"""
      (?P<line_comment>--[^\n]*)
    | (?P<open_comment>/\*)
    | (?P<quoted>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`)
    | (?P<open_quote>['"`])
    | (?P<end>;)
    | (?P<space>\s+)
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_MARK = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True)
class Split:
    """The statements of a text, each without its semicolon, and whether the last one was ended by one."""

    statements: tuple[str, ...]
    complete: bool
    """True when nothing but space and comments follows the last semicolon."""


def split_statements(text: str) -> Split:
    """Cut a text at the semicolons that stand outside quotes and comments."""
    statements: list[str] = []
    start = at = 0
    has_content = False
    while at < len(text):
        token = _TOKEN.match(text, at)
        assert token is not None  # `other` matches any character
        kind, at = token.lastgroup, token.end()
        if kind == "open_comment":
            closed = _comment_end(text, at)
            if closed is None:
                return Split((*statements, text[start:].strip()), complete=False)
            at = closed
        elif kind == "open_quote":
            return Split((*statements, text[start:].strip()), complete=False)
        elif kind == "end":
            if has_content:
                statements.append(text[start : token.start()].strip())
            start, has_content = at, False
        elif kind in ("quoted", "other"):
            has_content = True
    if has_content:
        statements.append(text[start:].strip())
    return Split(tuple(statements), complete=not has_content)


def _comment_end(text: str, at: int) -> int | None:
    """Where the comment that was opened before `at` ends (comments nest), or None."""
    depth = 1
    for mark in _COMMENT_MARK.finditer(text, at):
        depth += 1 if mark.group() == "/*" else -1
        if depth == 0:
            return mark.end()
    return None
