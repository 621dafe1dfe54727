"""Tokens as they are stored: their digests, never the tokens."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from datetime import datetime

from planner.access.principal import Kind, Principal
from planner.access.roles import FRAMEWORK, SITE


@dataclass(frozen=True, slots=True)
class TokenRecord:
    """The record of a token."""

    id: str
    """Not secret."""
    digest: str
    """SHA-256. It needs no salt and no slow hash: a token is 256 random bits."""
    name: str
    roles: tuple[str, ...]
    created_at: datetime
    created_by: str = ""
    bound: tuple[str, ...] = ()
    """The sites, or the framework, of a member's token."""
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    @property
    def principal(self) -> Principal:
        """The principal that the token authenticates."""
        kind = Kind.SITE if SITE in self.roles else Kind.FRAMEWORK if FRAMEWORK in self.roles else Kind.PERSON
        return Principal(kind, self.name, frozenset(self.roles), frozenset(self.bound))

    def is_live(self, now: datetime) -> bool:
        """Whether it is neither revoked nor expired."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)


def digest_of(token: str) -> str:
    """The digest by which a token is found."""
    return hashlib.sha256(token.encode()).hexdigest()
