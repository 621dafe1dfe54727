"""What a query lets adaptation do."""

from __future__ import annotations

from enum import Enum


class Adapting(Enum):
    """The modes of `SET adaptation = ...`."""

    OFF = "off"
    ADVISE = "advise"
    """It is decided what would be done, and nothing is done."""
    ON = "on"
    """Decisions are carried out, as far as they are moves of tasks."""
