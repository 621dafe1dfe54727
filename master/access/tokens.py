"""Creates, finds and revokes tokens."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from machine.bearer import PREFIX, new_token
from machine.clock import Clock
from master.base.errors import InvalidRequestError, LastAdminError, UnknownTokenError
from master.base.logs import line
from master.records.access import TokenRecord, digest_of
from master.records.ids import RandomHex, did_you_mean
from master.store import AccessStore
from planner.access.roles import ADMIN, FRAMEWORK, PERSONS, SITE
from planner.values.privileges import ROLE_FORM, is_role_name

logger = logging.getLogger(__name__)

LONGEST = timedelta(days=3650)

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_.@-]{0,63}")
# Its length reveals nothing about other tokens.
_TOKEN = re.compile(rf"{PREFIX}[A-Za-z0-9_-]{{43}}")
_ID_DIGITS = 8


def is_token(text: str) -> bool:
    """Whether the text has the form of one of our tokens."""
    return _TOKEN.fullmatch(text) is not None


@dataclass(frozen=True, slots=True)
class TokenWish:
    """A request for a token."""

    name: str
    roles: tuple[str, ...]
    bound: tuple[str, ...] = ()
    lifetime: timedelta | None = None
    """None: it does not expire."""


class TokenManager:
    """The only writer of tokens."""

    def __init__(
        self, store: AccessStore, *, clock: Clock, random_hex: RandomHex, make: Callable[[], str] = new_token
    ) -> None:
        self._store = store
        self._clock = clock
        self._random_hex = random_hex
        self._make = make
        self._records = {record.digest: record for record in store.tokens()}

    def all(self) -> tuple[TokenRecord, ...]:
        """All tokens, in the order of their creation."""
        return tuple(sorted(self._records.values(), key=lambda record: (record.created_at, record.id)))

    def find(self, token: str) -> TokenRecord | None:
        """The token's record, also when it is revoked or expired."""
        return self._records.get(digest_of(token))

    def is_live(self, record: TokenRecord) -> bool:
        """Whether the token is neither revoked nor expired."""
        now = self._records.get(record.digest)
        return now is not None and now.is_live(self._clock.now())

    def has_live_admin(self) -> bool:
        """Whether somebody can authenticate who may create tokens."""
        return bool(self._live_admins())

    def create(self, wish: TokenWish, *, by: str, token: str = "") -> tuple[TokenRecord, str]:
        """Create a token. Its secret is returned here and never again; `token` is a secret that was made elsewhere.

        Raises:
            InvalidRequestError: the wish contradicts itself.
        """
        _check(wish)
        text = token or self._make()
        now = self._clock.now()
        record = TokenRecord(
            id=f"t-{self._random_hex(_ID_DIGITS)}",
            digest=digest_of(text),
            name=wish.name,
            roles=tuple(sorted(set(wish.roles))),
            created_at=now,
            created_by=by,
            bound=tuple(sorted(set(wish.bound))),
            expires_at=None if wish.lifetime is None else now + wish.lifetime,
        )
        self._put(record)
        logger.info(line("token created", token=record.id, name=record.name, roles=",".join(record.roles), by=by))
        return record, text

    def revoke(self, reference: str, *, by: str) -> tuple[TokenRecord, ...]:
        """Revoke the token of that id, or all tokens of that name. Doing so again changes nothing.

        Raises:
            UnknownTokenError
            LastAdminError: nobody could make tokens any more.
        """
        found = [record for record in self.all() if reference in (record.id, record.name)]
        if not found:
            known = [word for record in self.all() for word in (record.id, record.name)]
            raise UnknownTokenError(
                f"there is no token {reference!r}",
                hint=did_you_mean(reference, known) or "selat token list has their ids and names",
                ids={"token": reference},
            )
        if (admins := self._live_admins()) and not admins - {record.id for record in found}:
            raise LastAdminError(
                f"{reference} is the last token of an admin: nobody could make another one",
                hint="first make one for yourself: selat token create NAME --role admin",
                ids={"token": reference},
            )
        return tuple(self._revoked(record, by) for record in found)

    def _revoked(self, record: TokenRecord, by: str) -> TokenRecord:
        if record.revoked_at is None:
            record = replace(record, revoked_at=self._clock.now())
            self._put(record)
            logger.info(line("token revoked", token=record.id, name=record.name, by=by))
        return record

    def _live_admins(self) -> set[str]:
        now: datetime = self._clock.now()
        return {record.id for record in self._records.values() if ADMIN in record.roles and record.is_live(now)}

    def _put(self, record: TokenRecord) -> None:
        self._store.put_token(record)
        self._records[record.digest] = record


def _check(wish: TokenWish) -> None:
    """Raises InvalidRequestError for a request that contradicts itself."""
    if not _NAME.fullmatch(wish.name):
        raise InvalidRequestError(
            f"{wish.name!r} cannot be the name of a token",
            hint="a letter, then up to 63 letters, digits, '_', '.', '@' or '-'",
            ids={"name": wish.name},
        )
    for role in wish.roles:
        if not is_role_name(role):
            raise InvalidRequestError(f"{role!r} cannot be a role", hint=ROLE_FORM, ids={"role": role})
    if wish.lifetime is not None and not timedelta(0) < wish.lifetime <= LONGEST:
        raise InvalidRequestError(
            f"a token cannot last {wish.lifetime}", hint=f"more than nothing, and {LONGEST.days} days at most"
        )
    _check_roles(wish.roles, wish.bound)


def _check_roles(roles: Sequence[str], bound: Sequence[str]) -> None:
    members = [role for role in roles if role in (SITE, FRAMEWORK)]
    if members and len(set(roles)) > 1:
        raise InvalidRequestError(
            f"the role {members[0]} goes with no other role", hint="make a token of its own for each site or framework"
        )
    if not members and not any(role in PERSONS for role in roles):
        hint = next((hint for role in roles if (hint := did_you_mean(role, PERSONS))), "")
        raise InvalidRequestError(
            "the token has none of the roles that carry rights", hint=hint or f"give one of {', '.join(PERSONS)}"
        )
    if bool(members) != bool(bound) or (FRAMEWORK in roles and len(set(bound)) > 1):
        raise InvalidRequestError(
            "a token of the role site names its sites, one of the role framework its framework, and no other token "
            "names any",
            hint="selat token create NAME --site eu, or --framework nightly",
        )
