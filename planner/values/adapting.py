"""What a query lets adaptation do."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
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


class Degrade(Enum):
    """The modes of `SET allow_degrade = ...`, for a query that nothing else helps."""

    OFF = "off"
    """All rows count."""
    SAMPLE = "sample"
    """Its sources let in a share of their rows."""
    LATE = "late"
    """Its sources let in no row until they have caught up."""


@dataclass(frozen=True, slots=True)
class Degrading:
    """The rule by which the sources of a query leave rows out."""

    how: Degrade
    """It is not OFF."""
    after: timedelta
    """A source leaves rows out when what it reads, or has sent, waits for longer than this."""
