"""Names and strings in the syntax of Spark SQL: quoting them, and reading a string as Spark does."""

from __future__ import annotations

import re

_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([01][0-7]{2})|([uU])|(.))", re.DOTALL)


def quoted_name(name: str) -> str:
    """The name in back-quotes."""
    return "`" + name.replace("`", "``") + "`"


def quoted_text(text: str) -> str:
    """The text as a string literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def text_of(literal: str) -> str | None:
    """The text of a string literal, given with its quotes; None when Spark might read another text."""
    if literal[:1] in "rR":
        return None if literal[1] in literal[2:-1] else literal[2:-1]
    quote, inner = literal[0], literal[1:-1]
    # A doubled quote is one quote, unless a backslash escapes the first of the two.
    parts = re.split(r"(\\.)", inner, flags=re.DOTALL)
    joined = "".join(part if part.startswith("\\") else part.replace(quote * 2, quote) for part in parts)
    try:
        # Two escapes may be the two surrogates of one character; UnicodeError is a ValueError.
        return _ESCAPED.sub(_character, joined).encode("utf-16", "surrogatepass").decode("utf-16")
    except ValueError:
        return None


def _character(match: re.Match[str]) -> str:
    short, long, octal, wrong, other = match.groups()
    if wrong:
        raise ValueError(match.group())
    if octal:
        return chr(int(octal, 8))
    if short or long:
        return chr(int(short or long, 16))
    return _ESCAPES.get(other, other)
