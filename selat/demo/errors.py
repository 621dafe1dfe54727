"""What can go wrong with the demo, apart from what goes wrong with a cluster."""

from __future__ import annotations

from selat.errors import SelatError


class DemoError(SelatError):
    """Its data are missing, or it took too long."""

    default_code = "DEMO"
