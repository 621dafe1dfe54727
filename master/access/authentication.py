"""Authentication: from the metadata and certificate of a call to the caller's identity."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from master.access.tokens import TokenManager, is_token
from master.base.errors import UnauthenticatedError
from master.records.access import TokenRecord
from planner.access.principal import Principal

AUTHORIZATION = "authorization"
SCHEME = "Bearer"

_HINT = "give a token: --token-file FILE, or SELAT_TOKEN_FILE; selat token create makes one"

Certificate = Mapping[str, Iterable[bytes]]
"""gRPC's properties of the peer's certificate; empty on a connection without TLS."""


@dataclass(frozen=True, slots=True)
class Identity:
    """An authenticated caller."""

    principal: Principal
    token: str = ""
    """The id of the token that the caller presented."""
    is_live: Callable[[], bool] = lambda: True
    """Whether the token is still valid while a call goes on: neither revoked nor expired."""


class TokenReader(Protocol):
    """Authenticates by tokens that others issue."""

    async def identity(self, token: str) -> Identity:
        """The identity of the token's bearer. Raises UnauthenticatedError when the token is invalid."""
        ...


class CertificateReader(Protocol):
    """Authenticates members by their certificates, which stand in for tokens of the roles `site` and `framework`."""

    def identity(self, certificate: Certificate) -> Identity | None:
        """The member's identity; None: the certificate is no member's, and a token decides."""
        ...


class Authenticator:
    """Tries the peer's certificate first, if certificates are read, and then the token."""

    def __init__(
        self, tokens: TokenManager, *, foreign: TokenReader | None = None, members: CertificateReader | None = None
    ) -> None:
        self._tokens = tokens
        self._foreign = foreign
        self._members = members

    async def identity(self, metadata: Iterable[tuple[str, str | bytes]], certificate: Certificate) -> Identity:
        """The caller's identity. Raises UnauthenticatedError, whose message never contains the token."""
        member = self._members.identity(certificate) if self._members is not None else None
        if member is not None:
            return member
        token = _bearer(metadata)
        if is_token(token):
            return self._own(self._tokens.find(token))
        if self._foreign is None:
            raise UnauthenticatedError("this is not a token of this master", hint=_HINT)
        return await self._foreign.identity(token)

    def _own(self, record: TokenRecord | None) -> Identity:
        if record is None:
            raise UnauthenticatedError("this master does not know the token", hint=_HINT)
        if record.revoked_at is not None:
            raise UnauthenticatedError("the token was revoked", hint=_HINT, ids={"token": record.id})
        if not self._tokens.is_live(record):
            raise UnauthenticatedError("the token has expired", hint=_HINT, ids={"token": record.id})
        return Identity(record.principal, record.id, lambda: self._tokens.is_live(record))


def _bearer(metadata: Iterable[tuple[str, str | bytes]]) -> str:
    """The bearer token in the metadata. Raises UnauthenticatedError when there is none, or more than one."""
    given = [value for key, value in metadata if key.lower() == AUTHORIZATION]
    if not given:
        raise UnauthenticatedError("this master refuses calls without a token", hint=_HINT)
    text = given[0] if isinstance(given[0], str) else ""
    scheme, _, token = text.partition(" ")
    if len(given) > 1 or scheme.lower() != SCHEME.lower() or not token.strip():
        raise UnauthenticatedError("the authorization of the call is not one bearer token", hint=_HINT)
    return token.strip()
