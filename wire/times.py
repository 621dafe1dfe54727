"""The clock by which certificates are valid or expired."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> datetime:
    """The present, in UTC."""
    return datetime.now(UTC)
