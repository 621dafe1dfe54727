"""Errors of clusters on this machine."""

from __future__ import annotations

from selat.errors import Detail, SelatError


class DevError(SelatError):
    """A cluster could not be started, found or stopped."""

    default_code = "DEV_CLUSTER"

    @classmethod
    def of(cls, message: str, *, hint: str) -> DevError:
        """The error, with a hint."""
        return cls(message, detail=Detail(hint=hint))
