"""Errors of the emulation."""

from __future__ import annotations

from selat.errors import Detail, SelatError


class WanError(SelatError):
    """An emulated WAN could not be created, found, changed or removed."""

    default_code = "WAN_EMULATION"

    @classmethod
    def of(cls, message: str, *, hint: str) -> WanError:
        """The error, with a hint."""
        return cls(message, detail=Detail(hint=hint))
