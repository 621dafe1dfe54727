"""Roles and the rights that they carry; docs/access.md has the same table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum


class Right(Enum):
    """One thing that a caller may do; the value ends the sentence `it takes the right to ...`."""

    BE_KNOWN = "be known to this master"
    LOOK = "look at queries, relations, sites and slots"
    WATCH_SLOTS = "watch slots"
    SUBMIT = "submit queries and define views"
    DECLARE = "declare, alter and drop streams, tables and sinks"
    CREATE_FUNCTION = "create and drop Python functions"
    MANAGE = "manage the queries and relations of others"
    OPERATE = "operate the cluster"
    LEASE = "take slots by lease"
    SPEAK_FOR_SITE = "speak for a site"
    ADMINISTER = "administer tokens"


READER = "reader"
SUBMITTER = "submitter"
OPERATOR = "operator"
FUNCTIONS = "functions"
ADMIN = "admin"
SITE = "site"
FRAMEWORK = "framework"

_READER = frozenset({Right.BE_KNOWN, Right.LOOK, Right.WATCH_SLOTS})
_SUBMITTER = _READER | {Right.SUBMIT}
_OPERATOR = _SUBMITTER | {Right.DECLARE, Right.MANAGE, Right.OPERATE, Right.LEASE}

RIGHTS: Mapping[str, frozenset[Right]] = {
    READER: _READER,
    SUBMITTER: _SUBMITTER,
    OPERATOR: _OPERATOR,
    # A function is a program with the rights of the agents: it goes with no other role but the admin's.
    FUNCTIONS: _READER | {Right.CREATE_FUNCTION},
    ADMIN: _OPERATOR | {Right.CREATE_FUNCTION, Right.ADMINISTER},
    SITE: frozenset({Right.BE_KNOWN, Right.WATCH_SLOTS, Right.SPEAK_FOR_SITE}),
    FRAMEWORK: frozenset({Right.BE_KNOWN, Right.LOOK, Right.WATCH_SLOTS, Right.LEASE}),
}
"""By role. Other names are groups: they carry nothing but what is granted to them."""

PERSONS = (READER, SUBMITTER, OPERATOR, FUNCTIONS, ADMIN)
"""Roles of people and programs, in the order of the documentation; the others are of members."""


def rights_of(roles: Iterable[str]) -> frozenset[Right]:
    """All rights that these roles carry together."""
    return frozenset().union(*(RIGHTS.get(role, frozenset()) for role in roles))


def roles_with(right: Right) -> tuple[str, ...]:
    """The roles that carry a right."""
    return tuple(role for role, rights in RIGHTS.items() if right in rights)
