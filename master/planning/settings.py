"""What SET changes: how the queries that follow it are run. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum

from master.base.errors import InvalidRequestError
from master.views.outcomes import Rows
from planner.batch import BatchOptions, Policy
from planner.sharing.deployment import Start
from planner.sharing.modes import Sharing

BYTES_PER_MB = 1_000_000
LARGEST_SPLIT_MB = 1_000_000


@dataclass(frozen=True, slots=True)
class Settings:
    """How a query is to be run."""

    sharing: Sharing = Sharing.NET
    start: Start = Start.HISTORY
    batch: BatchOptions = field(default_factory=BatchOptions)
    """Of queries over tables alone."""


@dataclass(frozen=True, slots=True)
class _Setting:
    """One of them as it is written."""

    comment: str
    possible: str
    text: Callable[[Settings], str]
    change: Callable[[Settings, str], Settings]
    """Raises ValueError when it has no such value."""


def _words(kind: type[Enum]) -> str:
    return ", ".join(str(member.value) for member in kind)


def _split_bytes(value: str) -> int:
    size_mb = float(value)
    if not 0 < size_mb <= LARGEST_SPLIT_MB:
        raise ValueError(value)
    return max(1, round(size_mb * BYTES_PER_MB))


def _share(value: str) -> float:
    share = float(value)
    if not 0 <= share <= 1:
        raise ValueError(value)
    return share


_SETTINGS: Mapping[str, _Setting] = {
    "sharing": _Setting(
        "what a query shares with those that run, docs/sharing.md",
        _words(Sharing),
        lambda settings: settings.sharing.value,
        lambda settings, value: replace(settings, sharing=Sharing(value)),
    ),
    "sharing_start": _Setting(
        "where it may begin to read what ran before it",
        _words(Start),
        lambda settings: settings.start.value,
        lambda settings, value: replace(settings, start=Start(value)),
    ),
    "batch_scheduler": _Setting(
        "how the tasks of a query over tables get their slots, docs/batch.md",
        _words(Policy),
        lambda settings: settings.batch.scheduler.value,
        lambda settings, value: replace(settings, batch=replace(settings.batch, scheduler=Policy(value))),
    ),
    "split_size": _Setting(
        "about so many MB of a table are one task's",
        f"a number of MB, more than 0, up to {LARGEST_SPLIT_MB}",
        lambda settings: f"{settings.batch.split_bytes / BYTES_PER_MB:.10g}",
        lambda settings, value: replace(settings, batch=replace(settings.batch, split_bytes=_split_bytes(value))),
    ),
    "locality_min": _Setting(
        "a query over tables is skipped for a while when fewer of its tasks would run near their input",
        "a share from 0 to 1",
        lambda settings: f"{settings.batch.locality_min:.10g}",
        lambda settings, value: replace(settings, batch=replace(settings.batch, locality_min=_share(value))),
    ),
}


def with_settings(defaults: Settings, given: Mapping[str, str]) -> Settings:
    """The settings with these changed; names as `checked_setting` gives them, others are passed over.

    Raises:
        InvalidRequestError: one has no such value.
    """
    settings = defaults
    for name, setting in _SETTINGS.items():
        if name in given:
            settings = _changed(name, setting, settings, given[name])
    return settings


def checked_setting(name: str, value: str) -> tuple[str, str]:
    """Name and value as they are kept, in lower case.

    Raises:
        InvalidRequestError: there is no such setting, or it has no such value.
    """
    key = name.lower()
    setting = _SETTINGS.get(key)
    if setting is None:
        raise InvalidRequestError(
            f"there is no setting {name}", hint=f"there are {', '.join(_SETTINGS)}", ids={"setting": name}
        )
    return key, setting.text(_changed(key, setting, Settings(), value.strip().lower()))


def setting_rows(settings: Settings) -> Rows:
    """For SHOW SETTINGS."""
    return Rows(
        ("name", "value", "possible", "comment"),
        tuple((name, s.text(settings), s.possible, s.comment) for name, s in _SETTINGS.items()),
    )


def _changed(name: str, setting: _Setting, settings: Settings, value: str) -> Settings:
    try:
        return setting.change(settings, value)
    except ValueError:
        raise InvalidRequestError(
            f"{name} cannot be {value!r}",
            hint=f"it is {'one of ' if ', ' in setting.possible else ''}{setting.possible}",
            ids={"setting": name, "value": value},
        ) from None
