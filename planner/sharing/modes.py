"""How much is shared and how carefully: Sana, and what it is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True)
class Rules:
    """What a mode allows."""

    operators: bool
    """Share an operator of the same inputs and function (IN-OP), or what contains it."""
    inputs: bool
    """Go to a site where inputs arrive already (IN)."""
    checked: bool
    """Share only where links have room for it."""
    aware: bool
    """Place what is not shared by the cost of links; else at an input's site, whatever its links are."""


class Sharing(Enum):
    """The modes of `SET sharing = ...`."""

    NO_SHARE = "no-share"
    STRICT = "strict"
    MAX_SHARE = "max-share"
    NET = "net"
    SANA = "sana"

    @property
    def rules(self) -> Rules:
        return _RULES[self]


_RULES = {
    Sharing.NO_SHARE: Rules(operators=False, inputs=False, checked=False, aware=False),
    Sharing.STRICT: Rules(operators=True, inputs=False, checked=True, aware=True),
    Sharing.MAX_SHARE: Rules(operators=True, inputs=True, checked=False, aware=False),
    Sharing.NET: Rules(operators=False, inputs=False, checked=False, aware=True),
    Sharing.SANA: Rules(operators=True, inputs=True, checked=True, aware=True),
}


class Goal(Enum):
    """Which of several candidates of one kind is taken."""

    BYTES = "bytes"
    """The one that shares most."""
    LATENCY = "latency"
    """The nearest one."""
