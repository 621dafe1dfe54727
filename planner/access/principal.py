"""Who calls: a person or program, a site's agent, a framework, or nobody known."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from planner.access.roles import ADMIN, Right, rights_of


class Kind(Enum):
    """The kind of a principal. Members (sites, frameworks) speak for the names that they are bound to, no others."""

    PERSON = "person"
    SITE = "site"
    FRAMEWORK = "framework"
    ANONYMOUS = "anonymous"


@dataclass(frozen=True, slots=True)
class Principal:
    """Whoever a token, or a member's certificate, stands for."""

    kind: Kind
    name: str
    roles: frozenset[str] = field(default_factory=frozenset)
    """Roles, and groups that relations are granted to."""
    bound: frozenset[str] = field(default_factory=frozenset)
    """The sites, or the framework, that a member may speak for."""

    def may(self, right: Right) -> bool:
        """True when one of its roles carries the right."""
        return right in rights_of(self.roles)

    def speaks_for(self, name: str) -> bool:
        """True when it may act in the name of that site or framework."""
        return self.kind is Kind.PERSON or name in self.bound


EVERYBODY = Principal(Kind.ANONYMOUS, "", frozenset({ADMIN}))
"""Every caller of a master that checks nobody."""

NOBODY = Principal(Kind.ANONYMOUS, "")
"""A caller who has not shown who it is."""
