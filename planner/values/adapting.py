"""What a query lets adaptation do."""

from __future__ import annotations

from enum import Enum


class Adapting(Enum):
    """The modes of `SET adaptation = ...`."""

    OFF = "off"
    ADVISE = "advise"
    """It is decided what would be done, and nothing is done."""
    ON = "on"
    """What is decided is done, as far as it is a move of tasks."""
