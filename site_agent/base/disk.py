"""Errors of the disk, in words, and whether the cause is lack of space, which somebody can free."""

from __future__ import annotations

import errno
from collections.abc import Mapping

from site_agent.base.errors import ChannelError, EngineError, NoSpaceError

_NO_SPACE = frozenset({errno.ENOSPC, errno.EDQUOT})
NO_SPACE_HINT = "free some space; the task continues by itself"
_JAVA_SAYS = ("No space left on device", "Disk quota exceeded")


def lacks_space(error: BaseException | None) -> bool:
    """Whether the error, or one of its causes, is a full disk."""
    while error is not None:
        if isinstance(error, NoSpaceError) or (isinstance(error, OSError) and error.errno in _NO_SPACE):
            return True
        if isinstance(error, EngineError) and any(text in error.message for text in _JAVA_SAYS):
            return True
        error = error.__cause__
    return False


def disk_error(what: str, error: OSError, *, ids: Mapping[str, str]) -> ChannelError:
    """The error to raise when `what` cannot be written."""
    if lacks_space(error):
        return NoSpaceError(f"the disk is full: cannot write {what}", hint=NO_SPACE_HINT, ids=dict(ids))
    return ChannelError(f"cannot write {what}: {error}", hint="look at the disk", ids=dict(ids))
