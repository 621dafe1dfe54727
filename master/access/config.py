"""The settings of access control; everything is off by default."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from master.access.audit import AuditOptions
from planner.access.claims import ClaimRule
from planner.access.limits import LimitTable


@dataclass(frozen=True, slots=True)
class OidcOptions:
    """The external issuer whose tokens are accepted besides the master's own."""

    keys: str
    """A file or a URL."""
    issuer: str
    audience: str
    rules: tuple[ClaimRule, ...]
    """How claims map to roles."""


@dataclass(frozen=True, slots=True)
class AccessConfig:
    """How callers are checked."""

    on: bool = False
    """False: everybody who reaches the master may do everything."""
    bootstrap_token_file: Path | None = None
    """The file for the first admin's token, which is created when there is none."""
    audit: AuditOptions | None = None
    """None: there is no audit log."""
    limits: LimitTable = field(default_factory=LimitTable)
    """The limits of each caller, where callers are checked."""
    oidc: OidcOptions | None = None
    """None: only the master's own tokens are accepted."""
