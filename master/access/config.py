"""Settings of access; everything is off by default."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from master.access.audit import AuditOptions
from planner.access.claims import ClaimRule
from planner.access.limits import LimitTable


@dataclass(frozen=True, slots=True)
class OidcOptions:
    """Whose tokens are believed besides our own."""

    keys: str
    """A file or a URL."""
    issuer: str
    audience: str
    rules: tuple[ClaimRule, ...]
    """From claims to roles."""


@dataclass(frozen=True, slots=True)
class AccessConfig:
    """The checks of callers."""

    on: bool = False
    """False: everybody who reaches the master may do everything."""
    bootstrap_token_file: Path | None = None
    """Takes the token of an admin when there is none."""
    audit: AuditOptions | None = None
    """None: there is no audit log."""
    limits: LimitTable = field(default_factory=LimitTable)
    """Limits of each caller, where callers are checked."""
    oidc: OidcOptions | None = None
    """None: only our own tokens are."""
