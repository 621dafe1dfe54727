"""Tokens of a master that checks who calls."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from selat.client.calls import Calls
from selat.convert.times import to_datetime
from selat.v1 import access_pb2
from selat.v1 import access_pb2 as pb


@dataclass(frozen=True, slots=True)
class Token:
    """A token, as the master describes it; the token itself was told once, to whoever made it."""

    id: str
    name: str
    """The name of the caller that it authenticates."""
    roles: tuple[str, ...]
    bound_to: tuple[str, ...]
    """The sites or the framework that a member's token is for."""
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
    """The identity of a client, as the master sees it."""

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


class AccessCalls(Calls):
    """Who this client is, and the tokens of all callers."""

    def caller(self) -> Caller:
        """Who the master takes this client for."""
        return caller_of(self._session.ask(self._session.access.GetCaller, access_pb2.GetCallerRequest()))

    def tokens(self) -> list[Token]:
        """All tokens, including those that have expired or were revoked, in the order in which they were made."""
        answer = self._session.ask(self._session.access.ListTokens, access_pb2.ListTokensRequest())
        return [token_of(t) for t in answer.tokens]

    def create_token(
        self, name: str, roles: Iterable[str], *, bound_to: Iterable[str] = (), lifetime: timedelta | None = None
    ) -> NewToken:
        """Makes a token; without `lifetime` it does not expire. A member's names its sites, or its framework.

        Raises StatementError when the roles contradict each other, or the master checks nobody.
        """
        request = access_pb2.CreateTokenRequest(
            name=name,
            roles=list(roles),
            bound_to=list(bound_to),
            lifetime_s=0 if lifetime is None else max(1, int(lifetime.total_seconds())),
        )
        answer = self._session.ask(self._session.access.CreateToken, request)
        return NewToken(token_of(answer.token), answer.secret)

    def revoke_token(self, token: str) -> list[Token]:
        """Takes back the token of that id, or all of that name.

        Raises NotFound, and StatementError for the last one of an admin.
        """
        request = access_pb2.RevokeTokenRequest(token=token)
        return [token_of(t) for t in self._session.ask(self._session.access.RevokeToken, request).tokens]
