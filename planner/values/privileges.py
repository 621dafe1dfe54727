"""Words of GRANT: privileges, and names of roles."""

from __future__ import annotations

import re
from enum import Enum

_ROLE = re.compile(r"[a-z][a-z0-9_-]{0,63}")
ROLE_FORM = "a small letter, then up to 63 small letters, digits, '_' or '-'"


class Privilege(Enum):
    """Something that is granted: SELECT on streams, tables and views, INSERT on sinks."""

    SELECT = "SELECT"
    INSERT = "INSERT"


def is_role_name(name: str) -> bool:
    """True when a role or group can be called that."""
    return _ROLE.fullmatch(name) is not None
