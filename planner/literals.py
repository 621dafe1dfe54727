"""Names and texts as Spark SQL writes them, and what Spark reads in a string."""

from __future__ import annotations

import re

_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_ESCAPED = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([01][0-7]{2})|([uU])|(.))", re.DOTALL)


def quoted_name(name: str) -> str:
    """A name in back-quotes."""
    return "`" + name.replace("`", "``") + "`"


def quoted_text(text: str) -> str:
    """A string in quotes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def text_of(literal: str) -> str | None:
    """The text of a string as it was written, quotes included; None when Spark might read it in another way."""
    if literal[:1] in "rR":
        return None if literal[1] in literal[2:-1] else literal[2:-1]
    quote, inner = literal[0], literal[1:-1]
    # A doubled quote is a quote, unless a backslash takes the first of the two.
    parts = re.split(r"(\\.)", inner, flags=re.DOTALL)
    joined = "".join(part if part.startswith("\\") else part.replace(quote * 2, quote) for part in parts)
    try:
        # Two escapes may be the halves of one character; UnicodeError is a ValueError.
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
