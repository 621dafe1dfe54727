"""What a query lets adaptation do."""

from __future__ import annotations

from enum import Enum


class Adapting(Enum):
    """The modes of `SET adaptation = ...`."""

    OFF = "off"
    ADVISE = "advise"
    """It is decided what would be done, and nothing is done."""
    ON = "on"
    """Decisions are carried out, as far as they are handovers."""


class Order(Enum):
    """The rule by which one of several operators is acted upon first; one that is healed by that needs nothing more."""

    NAKO = "nako"
    """The one whose action costs least, by Nako's measure."""
    FIRST = "first"
    """As they were found."""
    SLO = "slo"
    """The one whose rows wait longest."""
