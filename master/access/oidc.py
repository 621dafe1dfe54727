"""Accepts tokens of an OpenID Connect issuer: verifies signature, audience and time, and derives roles from claims."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import jwt
from jwt import PyJWK
from jwt.exceptions import ExpiredSignatureError, ImmatureSignatureError, PyJWTError

from machine.clock import Clock
from master.access.authentication import Identity
from master.access.config import OidcOptions
from master.access.keysets import ALGORITHMS, KeySet
from master.base.clock import SteadyTime
from master.base.errors import KeySetError, UnauthenticatedError
from master.base.logs import line
from planner.access.claims import roles_by_claims
from planner.access.principal import Kind, Principal

logger = logging.getLogger(__name__)

NAME_PREFIX = "oidc:"
"""The prefix of their names, which no token of our own has."""

LEEWAY = timedelta(seconds=30)
"""The tolerated difference between the issuer's clock and ours."""

_OLD = timedelta(minutes=5)
_AGAIN = timedelta(seconds=10)
"""The least time between two searches for an unknown key: invalid tokens must not flood the issuer with requests."""
_LONGEST_NAME = 200
_HINT = "get a new token from the issuer"


class OidcReader:
    """See `master.access.authentication.TokenReader`. Reads the keys again every few minutes, and when one
    is missing."""

    def __init__(self, options: OidcOptions, source: Callable[[], KeySet], *, clock: Clock) -> None:
        """Raises KeySetError when the keys cannot be read now."""
        self._options = options
        self._source = source
        self._clock = clock
        self._steady = SteadyTime(clock)
        self._keys = source()
        self._looked_at = self._steady.now()
        self._looking = asyncio.Lock()

    async def identity(self, token: str) -> Identity:
        """The identity of the token's bearer. Raises UnauthenticatedError, whose message does not contain the token."""
        key = await self._key(token)
        claims = self._claims(token, key)
        subject = claims["sub"]
        if not isinstance(subject, str) or not 0 < len(subject) <= _LONGEST_NAME or not subject.isprintable():
            raise UnauthenticatedError("the token's subject cannot be a name", hint=_HINT)
        expires_at = datetime.fromtimestamp(int(claims["exp"]), UTC)
        roles = roles_by_claims(self._options.rules, claims)
        principal = Principal(Kind.PERSON, NAME_PREFIX + subject, roles)
        return Identity(principal, "", lambda: self._clock.now() < expires_at + LEEWAY)

    async def _key(self, token: str) -> PyJWK:
        try:
            header = jwt.get_unverified_header(token)
        except PyJWTError:
            raise UnauthenticatedError("what was given is no token", hint=_HINT) from None
        if header.get("alg") not in ALGORITHMS.values() or "crit" in header:
            raise UnauthenticatedError(
                "the token's signature is not of an accepted kind", hint=f"{' and '.join(ALGORITHMS.values())} are"
            )
        name = str(header.get("kid", ""))
        if self._steady.now() >= self._looked_at + _OLD:
            await self._look()
        if self._find(name) is None and self._steady.now() >= self._looked_at + _AGAIN:
            await self._look()
        key = self._find(name)
        if key is None:
            raise UnauthenticatedError("the issuer has no such key", hint=_HINT)
        return key

    def _find(self, name: str) -> PyJWK | None:
        """The key with that id; in a set of one key, that key for tokens without an id."""
        if not name and len(self._keys) == 1:
            return next(iter(self._keys.values()))
        return self._keys.get(name)

    async def _look(self) -> None:
        """Read the keys again; if that fails, the previous keys stay in force."""
        async with self._looking:
            if self._steady.now() < self._looked_at + _AGAIN:
                return
            self._looked_at = self._steady.now()
            try:
                self._keys = await asyncio.to_thread(self._source)
            except KeySetError as error:
                logger.warning(line("keys of the issuer not read", reason=error.message))

    def _claims(self, token: str, key: PyJWK) -> Mapping[str, Any]:
        try:
            claims: Mapping[str, Any] = jwt.decode(
                token,
                key.key,
                # The algorithm of the key, not the one that the token names.
                algorithms=[ALGORITHMS[str(key.key_type)]],
                audience=self._options.audience,
                issuer=self._options.issuer,
                leeway=LEEWAY,
                options={"require": ["exp", "iss", "aud", "sub"]},
            )
        except ExpiredSignatureError:
            raise UnauthenticatedError("the token has expired", hint=_HINT) from None
        except ImmatureSignatureError:
            raise UnauthenticatedError("the token is not in force yet", hint="are the clocks right?") from None
        except (PyJWTError, ValueError, TypeError, OverflowError) as error:
            raise UnauthenticatedError(f"the token is not accepted: {type(error).__name__}", hint=_HINT) from None
        return claims
