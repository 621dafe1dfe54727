"""Tokens of a master that checks who calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from selat.convert.messages import to_datetime
from selat.v1 import access_pb2 as pb


@dataclass(frozen=True, slots=True)
class Token:
    """A token, as the master describes it; the token itself was told once, to whoever made it."""

    id: str
    name: str
    """Whom it stands for."""
    roles: tuple[str, ...]
    bound_to: tuple[str, ...]
    """The sites, or the framework, of a member's."""
    created_at: datetime
    created_by: str
    expires_at: datetime | None
    """None: it does not expire."""
    revoked_at: datetime | None

    def state(self, now: datetime) -> str:
        """`live`, `expired` or `revoked`."""
        if self.revoked_at is not None:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= now else "live"


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token that was just made."""

    token: Token
    secret: str = field(repr=False)
    """The token itself. The master does not keep it."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who the master takes a client for."""

    kind: str
    """`person`, `site` or `framework`; `anonymous`: it checks nobody."""
    name: str
    roles: tuple[str, ...]
    bound_to: tuple[str, ...]


def token_of(message: pb.Token) -> Token:
    return Token(
        id=message.id,
        name=message.name,
        roles=tuple(message.roles),
        bound_to=tuple(message.bound_to),
        created_at=to_datetime(message.created_at_us),
        created_by=message.created_by,
        expires_at=to_datetime(message.expires_at_us) if message.HasField("expires_at_us") else None,
        revoked_at=to_datetime(message.revoked_at_us) if message.HasField("revoked_at_us") else None,
    )


def caller_of(message: pb.GetCallerResponse) -> Caller:
    return Caller(message.kind, message.name, tuple(message.roles), tuple(message.bound_to))
