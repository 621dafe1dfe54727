"""Errors of this package."""

from __future__ import annotations


class WireError(Exception):
    """Certificates that are missing, damaged, or not what they should be; `hint` says what would be right."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
