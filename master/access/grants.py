"""Owners of relations and grants on them: the rules for changing them, and the checks by them."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

from machine.clock import Clock
from master.access.caller import caller, note_relations
from master.access.rights import check_on
from master.base.errors import InvalidRequestError, NotGrantedError, NotOwnerError
from master.base.logs import line
from master.store import AccessStore
from planner.access.grants import Grant, Grants, Need, Owner
from planner.access.roles import Right
from planner.graph.plan import StatementText
from planner.relations.catalog import Relation, RelationKind
from planner.values.privileges import Privilege

logger = logging.getLogger(__name__)


class GrantManager:
    """The only writer of grants and owners. Checks concern the caller of the running call."""

    def __init__(self, store: AccessStore, *, clock: Clock, on: bool) -> None:
        """`on` says whether callers are checked."""
        self._store = store
        self._on = on
        self._clock = clock
        self._grants = Grants({grant.key: grant for grant in store.grants()}, dict(store.owners()))

    @property
    def snapshot(self) -> Grants:
        """All owners and grants; not to be changed."""
        return self._grants

    def all(self) -> tuple[Grant, ...]:
        """All grants, by relation, privilege and role."""
        return tuple(sorted(self._grants.granted.values(), key=lambda g: (g.relation, g.privilege.value, g.role)))

    def created(self, relation: str) -> None:
        """Make the caller the owner of a new relation. Grants on an earlier relation of that name are removed."""
        note_relations([relation])
        self.dropped(relation)
        by = caller()
        if by.name:
            self._own(relation.lower(), Owner(by.name, tuple(sorted(by.roles))))

    def replaced(self, relation: str) -> None:
        """Make the caller the owner of a view that replaces another; the grants on it stay."""
        note_relations([relation])
        key, by = relation.lower(), caller()
        # Also where callers are not checked any more: nobody must read the new definition with the former owner's
        # roles.
        if by.name or key in self._grants.owners:
            self._own(key, Owner(by.name, tuple(sorted(by.roles))))

    def dropped(self, relation: str) -> None:
        """Remove the owner of a relation that is about to be dropped, and all grants on it."""
        note_relations([relation])
        key = relation.lower()
        if key in self._grants.owners or any(grant.relation == key for grant in self._grants.granted.values()):
            self._store.forget_relation(key)
            granted = {k: grant for k, grant in self._grants.granted.items() if grant.relation != key}
            owners = {name: owner for name, owner in self._grants.owners.items() if name != key}
            self._grants = Grants(granted, owners)

    def grant(self, relation: Relation, privilege: Privilege, role: str) -> bool:
        """Grant a privilege; returns whether that is new.

        Raises:
            AccessOffError
            NotOwnerError: the relation is another's.
            InvalidRequestError: the privilege is not one of such a relation.
        """
        check_on(self._on)
        self.check_own(relation)
        _check_fits(relation, privilege)
        grant = Grant(relation.name.lower(), privilege, role, caller().name, self._clock.now())
        if grant.key in self._grants.granted:
            return False
        self._store.put_grant(grant)
        self._grants = replace(self._grants, granted={**self._grants.granted, grant.key: grant})
        logger.info(line("granted", relation=grant.relation, privilege=privilege.value, role=role, by=grant.granted_by))
        return True

    def revoke(self, relation: Relation, privilege: Privilege, role: str) -> bool:
        """Revoke a privilege; returns whether it was granted. Running queries go on; raises as `grant` does."""
        check_on(self._on)
        self.check_own(relation)
        key = (relation.name.lower(), privilege, role)
        if key not in self._grants.granted:
            return False
        self._store.delete_grant(*key)
        granted = {k: grant for k, grant in self._grants.granted.items() if k != key}
        self._grants = replace(self._grants, granted=granted)
        logger.info(line("revoked", relation=key[0], privilege=privilege.value, role=role, by=caller().name))
        return True

    def check_own(self, relation: Relation) -> None:
        """Raises NotOwnerError unless the caller may change or drop the relation."""
        note_relations([relation.name])
        by, owner = caller(), self._grants.owners.get(relation.name.lower())
        if by.may(Right.MANAGE) or (owner is not None and by.name and owner.name == by.name):
            return
        raise NotOwnerError(
            f"{relation.kind.value} {relation.name} is {_whose(owner)}",
            hint="its owner, an operator or an admin can do that",
            ids={"relation": relation.name, "principal": by.name},
        )

    def check_reads(self, texts: Iterable[StatementText]) -> None:
        """Raises NotGrantedError unless the caller, or the owner of a view, may read the relations of the query."""
        found = [(text.view, text.relations) for text in texts]
        note_relations(name for _, names in found for name in names)
        for need in self._grants.lacking(caller(), found):
            raise _not_granted(need)

    def check_writes(self, sink: Relation) -> None:
        """Raises NotGrantedError unless the caller may write into the sink."""
        note_relations([sink.name])
        by, key = caller(), sink.name.lower()
        if not self._grants.may(by.name, by.roles, key, Privilege.INSERT):
            raise _not_granted(Need(key, Privilege.INSERT))

    def _own(self, key: str, owner: Owner) -> None:
        self._store.put_owner(key, owner)
        self._grants = replace(self._grants, owners={**self._grants.owners, key: owner})


def _not_granted(need: Need) -> NotGrantedError:
    who = f"the owner of view {need.view}" if need.view else caller().name
    verb = "read" if need.privilege is Privilege.SELECT else "write into"
    return NotGrantedError(
        f"{who} may not {verb} {need.relation}",
        hint=f"its owner or an admin can allow it: GRANT {need.privilege.value} ON {need.relation} TO role",
        ids={"relation": need.relation, "principal": caller().name},
    )


def _whose(owner: Owner | None) -> str:
    return (
        f"{owner.name}'s"
        if owner is not None and owner.name
        else "without an owner: it was declared while callers were not checked"
    )


def _check_fits(relation: Relation, privilege: Privilege) -> None:
    wanted = Privilege.INSERT if relation.kind is RelationKind.SINK else Privilege.SELECT
    if privilege is not wanted:
        raise InvalidRequestError(
            f"{privilege.value} on {relation.kind.value} {relation.name} means nothing",
            hint=f"GRANT {wanted.value} ON {relation.name} TO role",
            ids={"relation": relation.name},
        )
