"""Names of members: a role and a name in it, as they stand in certificates."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum

from wire.errors import WireError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", re.ASCII)
_SCHEME = "selat://"
_HASHED = "x--"
"""The prefix of DNS labels that stand for names that are not DNS labels; no other name may begin with it."""
_HASH_DIGITS = 40


class Role(StrEnum):
    """Kinds of members."""

    MASTER = "master"
    SITE = "site"
    FRAMEWORK = "framework"
    CLIENT = "client"
    PRODUCER = "producer"


@dataclass(frozen=True, slots=True, order=True)
class MemberName:
    """One member of a cluster."""

    role: Role
    name: str

    def __str__(self) -> str:
        return f"{self.role}/{self.name}"

    @property
    def uri(self) -> str:
        """The URI that names the member in its certificate."""
        return f"{_SCHEME}{self}"

    @property
    def host(self) -> str:
        """The DNS name as a certificate has it, which a channel looks for in place of the address.

        DNS names know no upper case: names that differ in nothing else have different hosts all the same.
        """
        plain = _LABEL.fullmatch(self.name) and not self.name.startswith(_HASHED)
        digest = hashlib.sha256(self.name.encode()).hexdigest()[:_HASH_DIGITS]
        return f"{self.name if plain else _HASHED + digest}.{self.role}.selat"

    @property
    def serves(self) -> bool:
        """Whether other members connect to it."""
        return self.role in (Role.MASTER, Role.SITE)


MASTER = MemberName(Role.MASTER, "master")
"""The name of the master, of which a cluster has one."""


def site(name: str) -> MemberName:
    """The member that is the agent of a site."""
    return MemberName(Role.SITE, name)


def member_name(role: str, name: str) -> MemberName:
    """The member of that role and name. Raises WireError when a certificate cannot have them."""
    try:
        found = MemberName(Role(role), name)
    except ValueError:
        raise WireError(f"there is no role {role!r}", f"one of {', '.join(Role)}") from None
    if not _NAME.fullmatch(name):
        raise WireError(
            f"{name!r} cannot be a member's name", "1 to 63 letters, digits, `.`, `_` and `-`, a letter or digit first"
        )
    if found.role is Role.MASTER and found != MASTER:
        raise WireError(f"a master cannot be named {name!r}", f"a cluster has one master, named {MASTER.name}")
    return found


def from_uri(uri: str) -> MemberName | None:
    """The member that a certificate's URI names; None when it names none."""
    role, _, name = uri.removeprefix(_SCHEME).partition("/")
    try:
        return member_name(role, name) if uri.startswith(_SCHEME) else None
    except WireError:
        return None
