"""Rights that a service checks in addition to those in the table of methods."""

from __future__ import annotations

from master.access.caller import caller
from master.base.errors import AccessOffError, LimitExceededError, PermissionDeniedError
from planner.access.limits import Limits
from planner.access.principal import Principal
from planner.access.roles import Right, roles_with
from planner.values.errors import Position


def check_right(right: Right, position: Position | None = None) -> None:
    """Raises PermissionDeniedError unless the caller has the right; `position` is that of the statement that
    needs it."""
    by = caller()
    if not by.may(right):
        raise PermissionDeniedError(
            f"{by.name} may not do that without the right to {right.value}",
            position=position,
            hint=f"roles with it: {', '.join(roles_with(right))}",
            ids={"principal": by.name},
        )


def limit_exceeded(principal: Principal, limit: str, limits: Limits) -> LimitExceededError:
    """The error that names the exceeded limit, and how to raise it."""
    value = getattr(limits, limit)
    return LimitExceededError(
        f"{principal.name} has reached its limit {limit}, which is {value:g}",
        hint=f"ask for less, or have {limit} raised in the master's file of limits (--limits), docs/access.md",
        ids={"principal": principal.name, "limit": limit},
    )


def check_on(on: bool) -> None:
    """Raises AccessOffError at a master that does not check callers."""
    if not on:
        raise AccessOffError(
            "this master does not check callers, so it has neither tokens nor grants",
            hint="start it with --auth, docs/access.md",
        )
