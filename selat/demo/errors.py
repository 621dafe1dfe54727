"""Errors of the demo itself."""

from __future__ import annotations

from selat.errors import SelatError


class DemoError(SelatError):
    """The demo's data are missing, or it took too long."""

    default_code = "DEMO"
