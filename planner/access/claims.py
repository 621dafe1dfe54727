"""From the claims of a token that another issuer signed to roles: a list of rules, in YAML."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from planner.access.roles import FRAMEWORK, SITE
from planner.values.errors import InvalidDefinitionError
from planner.values.privileges import ROLE_FORM, is_role_name

_HINT = "It must be a list like - {claim: groups, value: analysts, roles: [submitter, analysts]}."
_FIELDS = ("claim", "value", "roles")


@dataclass(frozen=True, slots=True)
class ClaimRule:
    """Gives roles to whoever has a claim with a value."""

    claim: str
    """A name, with dots into objects: `realm_access.roles`."""
    value: str
    """The claim is this text, or a list that has it; `*`: whatever it is."""
    roles: tuple[str, ...]


def read_claim_rules(content: bytes) -> tuple[ClaimRule, ...]:
    """The rules of a file.

    Raises:
        InvalidDefinitionError: it is no YAML, or no list of rules.
    """
    try:
        value = yaml.safe_load(content)
    except (yaml.YAMLError, UnicodeError, RecursionError, ValueError) as error:
        raise InvalidDefinitionError(f"it is no YAML: {str(error).partition(chr(10))[0]}", hint=_HINT) from error
    if not isinstance(value, list) or not value:
        raise InvalidDefinitionError("it is no list of rules", hint=_HINT)
    return tuple(_rule(number, item) for number, item in enumerate(value, start=1))


def roles_by_claims(rules: tuple[ClaimRule, ...], claims: Mapping[str, Any]) -> frozenset[str]:
    """The roles that all rules together give."""
    return frozenset(role for rule in rules if _holds(rule, claims) for role in rule.roles)


def _rule(number: int, item: object) -> ClaimRule:
    where = f"rule {number}"
    if not isinstance(item, dict) or set(item) != set(_FIELDS):
        raise InvalidDefinitionError(f"{where} has not the fields {', '.join(_FIELDS)}", hint=_HINT)
    claim, wanted, roles = (item[field] for field in _FIELDS)
    if not isinstance(claim, str) or not isinstance(wanted, str) or not claim or not wanted:
        raise InvalidDefinitionError(f"{where}: claim and value are texts", hint=_HINT)
    if not isinstance(roles, list) or not roles or not all(isinstance(role, str) for role in roles):
        raise InvalidDefinitionError(f"{where}: roles is a list of names", hint=_HINT)
    for role in roles:
        if not is_role_name(role):
            raise InvalidDefinitionError(f"{where}: {role!r} cannot be a role", found=role, hint=ROLE_FORM)
        if role in (SITE, FRAMEWORK):
            raise InvalidDefinitionError(f"{where}: {role} is a role of members", found=role, hint="They have tokens.")
    return ClaimRule(claim, wanted, tuple(roles))


def _holds(rule: ClaimRule, claims: Mapping[str, Any]) -> bool:
    found: Any = claims.get(rule.claim)
    if found is None:
        found = claims
        for name in rule.claim.split("."):
            found = found.get(name) if isinstance(found, Mapping) else None
    if found is None:
        return False
    values = found if isinstance(found, list) else [found]
    return rule.value == "*" or any(isinstance(value, str) and value == rule.value for value in values)
