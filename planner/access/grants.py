"""Grants on relations: what a role may read or write that it does not own. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from planner.access.principal import Principal
from planner.access.roles import Right, rights_of
from planner.values.privileges import Privilege


@dataclass(frozen=True, slots=True)
class Grant:
    """One line of SHOW GRANTS."""

    relation: str
    """In lower case, as are all names of relations here."""
    privilege: Privilege
    role: str
    granted_by: str = ""
    granted_at: datetime | None = None

    @property
    def key(self) -> tuple[str, Privilege, str]:
        return self.relation, self.privilege, self.role


@dataclass(frozen=True, slots=True)
class Owner:
    """Who declared a relation, with the roles of that moment: by them a view reads what is below it."""

    name: str
    roles: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Need:
    """A privilege that is missing."""

    relation: str
    privilege: Privilege
    view: str = ""
    """The view whose owner lacks it; empty: the caller does."""


@dataclass(frozen=True, slots=True)
class Grants:
    """All grants and owners."""

    granted: Mapping[tuple[str, Privilege, str], Grant] = field(default_factory=dict)
    owners: Mapping[str, Owner] = field(default_factory=dict)
    """By relation. One without an owner was declared when nobody was checked."""

    def may(self, name: str, roles: Iterable[str], relation: str, privilege: Privilege) -> bool:
        """True for whoever has a privilege: by managing all, by owning it, or by a grant to one of the roles."""
        held = tuple(roles)
        if Right.MANAGE in rights_of(held):
            return True
        owner = self.owners.get(relation)
        if name and owner is not None and owner.name == name:
            return True
        return any((relation, privilege, role) in self.granted for role in held)

    def lacking(self, principal: Principal, texts: Iterable[tuple[str, tuple[str, ...]]]) -> Iterator[Need]:
        """The privileges that a query lacks.

        Args:
            principal: the caller.
            texts: of the query, by the empty name, and of each view that it uses, through others too, by the view's
                name: the streams, tables and views that each names.
        """
        for view, relations in texts:
            for relation in (name.lower() for name in relations):
                if not self._may_in(view.lower(), principal, relation):
                    yield Need(relation, Privilege.SELECT, view)

    def _may_in(self, view: str, principal: Principal, relation: str) -> bool:
        if not view:
            return self.may(principal.name, principal.roles, relation, Privilege.SELECT)
        owner = self.owners.get(view)
        # Declared when nobody was checked, by whoever ran the master then.
        return owner is None or self.may(owner.name, owner.roles, relation, Privilege.SELECT)
