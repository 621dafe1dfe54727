"""What SET changes: how the queries that follow it are run. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from master.errors import InvalidRequestError
from master.outcomes import Rows
from planner.sharing.deployment import Start
from planner.sharing.modes import Sharing


@dataclass(frozen=True, slots=True)
class Settings:
    """How a query is to be run."""

    sharing: Sharing = Sharing.NET
    start: Start = Start.HISTORY


_VALUES: Mapping[str, type[Enum]] = {"sharing": Sharing, "sharing_start": Start}
_COMMENTS = {
    "sharing": "what a query shares with those that run, docs/sharing.md",
    "sharing_start": "where it may begin to read what ran before it",
}


def with_settings(defaults: Settings, given: Mapping[str, str]) -> Settings:
    """The settings with these changed.

    Raises:
        InvalidRequestError: there is no such setting, or it has no such value.
    """
    return Settings(
        sharing=Sharing(_checked("sharing", given.get("sharing", defaults.sharing.value))),
        start=Start(_checked("sharing_start", given.get("sharing_start", defaults.start.value))),
    )


def checked_setting(name: str, value: str) -> tuple[str, str]:
    """Name and value as they are kept, in lower case; raises as `with_settings` does."""
    key = name.lower()
    if key not in _VALUES:
        raise InvalidRequestError(
            f"there is no setting {name}", hint=f"there are {', '.join(_VALUES)}", ids={"setting": name}
        )
    return key, _checked(key, value.lower())


def setting_rows(settings: Settings) -> Rows:
    """For SHOW SETTINGS."""
    values = {"sharing": settings.sharing.value, "sharing_start": settings.start.value}
    return Rows(
        ("name", "value", "possible", "comment"),
        tuple((name, value, ", ".join(_possible(name)), _COMMENTS[name]) for name, value in values.items()),
    )


def _checked(name: str, value: str) -> str:
    if value not in _possible(name):
        raise InvalidRequestError(
            f"{name} cannot be {value!r}",
            hint=f"it is one of {', '.join(_possible(name))}",
            ids={"setting": name, "value": value},
        )
    return value


def _possible(name: str) -> tuple[str, ...]:
    return tuple(str(member.value) for member in _VALUES[name])
