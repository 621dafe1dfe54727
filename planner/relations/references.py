"""References to secrets: a declaration has `${secret:name}` where a site has the value."""

from __future__ import annotations

import re

BEGINNING = "${secret:"
"""What no other text may have in it."""

_REFERENCE = re.compile(r"\$\{secret:([A-Za-z0-9][A-Za-z0-9._-]{0,99})\}", re.ASCII)


def referred_secret(text: str) -> str | None:
    """The name of the secret that the text refers to; None when it is no reference."""
    found = _REFERENCE.fullmatch(text)
    return found.group(1) if found else None
