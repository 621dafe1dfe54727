"""What SET changes: how later queries of the script run. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import Enum

from master.base.errors import InvalidRequestError
from master.views.outcomes import Rows
from planner.batch import BatchOptions, Policy
from planner.graph.batchoptions import KeyFilters
from planner.graph.plan import PhysicalPlan, takes_again
from planner.sharing.deployment import Start
from planner.sharing.modes import Sharing
from planner.sql.intervals import parse_interval
from planner.values.adapting import Adapting, Degrade, Degrading
from planner.values.names import BINS
from planner.values.trees import AUTO, OFF, Tree

BYTES_PER_MB = 1_000_000
LARGEST_SPLIT_MB = 1_000_000
LEAST_PATIENCE = timedelta(seconds=10)
"""Readers acknowledge with their checkpoints, every five seconds: until then, rows that they have taken seem to
wait."""


@dataclass(frozen=True, slots=True)
class Settings:
    """How a query runs."""

    sharing: Sharing = Sharing.NET
    start: Start = Start.HISTORY
    combine: bool = False
    """Whether each site combines its partials of a window before it sends them."""
    combine_tree: Tree | None = None
    """Over which sites the partials go, where sites combine; None: as the links' figures say."""
    merge_parallelism: int = 1
    """In how many parts a merge runs, where it can."""
    adapting: Adapting = Adapting.OFF
    """What may be done about a query of streams while it runs."""
    allow_degrade: Degrade = Degrade.OFF
    degrade_after: timedelta = timedelta(seconds=30)
    """Rows of a query that allows it are left out when others wait for longer than this."""
    batch: BatchOptions = field(default_factory=BatchOptions)
    """For queries over tables alone."""


def combines(settings: Settings) -> bool:
    """Whether the sites of a query combine its partials.

    Raises:
        InvalidRequestError: it may also begin in the middle of a source's rows; the site that combines them would leave
            out the windows that are not whole, and the merge would not know. Or it asks for a tree, and does not
            combine.
    """
    if not settings.combine and settings.combine_tree is not None and settings.combine_tree.over:
        raise InvalidRequestError(
            f"combine_tree = '{settings.combine_tree}' does not go together with combine = off",
            hint="SET combine = on",
            ids={"setting": "combine_tree"},
        )
    if settings.combine and settings.start is not Start.HISTORY:
        raise InvalidRequestError(
            f"combine = on does not go together with sharing_start = {settings.start.value}",
            hint=f"SET sharing_start = '{Start.HISTORY.value}'",
            ids={"setting": "combine"},
        )
    return settings.combine


def merge_parts(settings: Settings) -> int:
    """In how many parts the merges of a query run.

    Raises:
        InvalidRequestError: it may also begin in the middle of a source's rows; each part would leave out other windows
            than the others do.
    """
    if settings.merge_parallelism > 1 and settings.start is not Start.HISTORY:
        raise InvalidRequestError(
            f"merge_parallelism = {settings.merge_parallelism} does not go together with "
            f"sharing_start = {settings.start.value}",
            hint=f"SET sharing_start = '{Start.HISTORY.value}'",
            ids={"setting": "merge_parallelism"},
        )
    return settings.merge_parallelism


def check_start(settings: Settings, plan: PhysicalPlan) -> None:
    """Raises InvalidRequestError when a query of sessions, of streams joined within intervals, of totals, or with OVER
    may begin in the middle of a source's rows: its results may be of rows from before."""
    if takes_again(plan.stages) and settings.start is not Start.HISTORY:
        raise InvalidRequestError(
            "sessions, joins within intervals, EMIT EVERY and OVER do not go together with "
            f"sharing_start = {settings.start.value}",
            hint=f"SET sharing_start = '{Start.HISTORY.value}'",
            ids={"setting": "sharing_start"},
        )


def batch_options(settings: Settings) -> BatchOptions:
    """Return how the tasks of a query over tables are placed, and whether they take rows that others made."""
    return replace(settings.batch, reuse=settings.sharing.rules.operators)


def degrades(settings: Settings) -> Degrading | None:
    """Return how the sources of a query leave rows out; None: they do not.

    Raises:
        InvalidRequestError: other queries may read these sources.
    """
    if settings.allow_degrade is Degrade.OFF:
        return None
    if settings.sharing.rules.operators:
        apart = " or ".join(f"'{mode.value}'" for mode in Sharing if not mode.rules.operators)
        raise InvalidRequestError(
            f"allow_degrade = {settings.allow_degrade.value} does not go together with "
            f"sharing = {settings.sharing.value}: other queries would miss rows",
            hint=f"SET sharing = {apart}",
            ids={"setting": "allow_degrade"},
        )
    return Degrading(settings.allow_degrade, settings.degrade_after)


@dataclass(frozen=True, slots=True)
class _Setting:
    """A setting as it is written in SQL."""

    comment: str
    possible: str
    text: Callable[[Settings], str]
    change: Callable[[Settings, str], Settings]
    """The changed settings; raises ValueError for an invalid value."""
    names: bool = False
    """Whether its values name sites, whose letters are large or small."""


def _words(kind: type[Enum]) -> str:
    return ", ".join(str(member.value) for member in kind)


def _split_bytes(value: str) -> int:
    size_mb = float(value)
    if not 0 < size_mb <= LARGEST_SPLIT_MB:
        raise ValueError(value)
    return max(1, round(size_mb * BYTES_PER_MB))


def _parts(value: str) -> int:
    parts = int(value)
    if not 1 <= parts <= BINS:
        raise ValueError(value)
    return parts


def _share(value: str) -> float:
    share = float(value)
    if not 0 <= share <= 1:
        raise ValueError(value)
    return share


def _patience(value: str) -> timedelta:
    found = parse_interval(value)
    if found is None or found < LEAST_PATIENCE:
        raise ValueError(value)
    return found


def tree_of(value: str) -> Tree | None:
    """Return over which sites partials go, as `combine_tree` says; None: as the links' figures say.

    Raises:
        ValueError: it says nothing of the kind.
    """
    word = value.lower()
    return None if word == AUTO else Tree.parsed(OFF if word == OFF else value)


_SWITCH: Mapping[str, bool] = {"on": True, "off": False}


def _switched(value: str) -> bool:
    if value not in _SWITCH:
        raise ValueError(value)
    return _SWITCH[value]


_SETTINGS: Mapping[str, _Setting] = {
    "sharing": _Setting(
        "what a query shares with running queries, docs/sharing.md",
        _words(Sharing),
        lambda settings: settings.sharing.value,
        lambda settings, value: replace(settings, sharing=Sharing(value)),
    ),
    "sharing_start": _Setting(
        "where it may begin to read channels that are older than it",
        _words(Start),
        lambda settings: settings.start.value,
        lambda settings, value: replace(settings, start=Start(value)),
    ),
    "combine": _Setting(
        "whether sites keep the groups of a window and send each about once, docs/combine.md",
        ", ".join(_SWITCH),
        lambda settings: "on" if settings.combine else "off",
        lambda settings, value: replace(settings, combine=_switched(value)),
    ),
    "combine_tree": _Setting(
        "over which sites combined groups go, docs/combine.md",
        f"{AUTO}, {OFF}, ways such as 'eu-west > eu-central' with commas between them",
        lambda settings: AUTO if settings.combine_tree is None else str(settings.combine_tree),
        lambda settings, value: replace(settings, combine_tree=tree_of(value)),
        names=True,
    ),
    "merge_parallelism": _Setting(
        "in how many parts a merge runs, each of some bins of its keys, docs/sql.md",
        f"a whole number from 1 to {BINS}",
        lambda settings: str(settings.merge_parallelism),
        lambda settings, value: replace(settings, merge_parallelism=_parts(value)),
    ),
    "adaptation": _Setting(
        "whether it is decided what would help a query that does not keep up, and done, docs/adaptation.md",
        _words(Adapting),
        lambda settings: settings.adapting.value,
        lambda settings, value: replace(settings, adapting=Adapting(value)),
    ),
    "allow_degrade": _Setting(
        "whether sources leave rows out that wait for too long, docs/adaptation.md",
        _words(Degrade),
        lambda settings: settings.allow_degrade.value,
        lambda settings, value: replace(settings, allow_degrade=Degrade(value)),
    ),
    "degrade_after": _Setting(
        "how long rows may wait before their source leaves some out, where allow_degrade says so",
        f"an interval such as '1 minute', at least {LEAST_PATIENCE.total_seconds():.0f} seconds",
        lambda settings: f"{settings.degrade_after.total_seconds():.10g} seconds",
        lambda settings, value: replace(settings, degrade_after=_patience(value)),
    ),
    "batch_scheduler": _Setting(
        "how the tasks of a query over tables get their slots, docs/batch.md",
        _words(Policy),
        lambda settings: settings.batch.scheduler.value,
        lambda settings, value: replace(settings, batch=replace(settings.batch, scheduler=Policy(value))),
    ),
    "split_size": _Setting(
        "the approximate size of a split, in MB",
        f"a number of MB, more than 0, up to {LARGEST_SPLIT_MB}",
        lambda settings: f"{settings.batch.split_bytes / BYTES_PER_MB:.10g}",
        lambda settings, value: replace(settings, batch=replace(settings.batch, split_bytes=_split_bytes(value))),
    ),
    "locality_min": _Setting(
        "a query over tables is skipped for a while if a smaller share of its tasks would run near their input",
        "a share from 0 to 1",
        lambda settings: f"{settings.batch.locality_min:.10g}",
        lambda settings, value: replace(settings, batch=replace(settings.batch, locality_min=_share(value))),
    ),
    "key_filters": _Setting(
        "when a table of a query that runs whole is filtered by the keys of another, docs/batch.md",
        _words(KeyFilters),
        lambda settings: settings.batch.key_filters.value,
        lambda settings, value: replace(settings, batch=replace(settings.batch, key_filters=KeyFilters(value))),
    ),
}


def with_settings(defaults: Settings, given: Mapping[str, str]) -> Settings:
    """The settings with these changes; names as `checked_setting` returns them, unknown ones are ignored.

    Raises:
        InvalidRequestError: one has no such value.
    """
    settings = defaults
    for name, setting in _SETTINGS.items():
        if name in given:
            settings = _changed(name, setting, settings, given[name])
    return settings


def checked_setting(name: str, value: str) -> tuple[str, str]:
    """Name and value, in lower case.

    Raises:
        InvalidRequestError: there is no such setting, or it has no such value.
    """
    key = name.lower()
    setting = _SETTINGS.get(key)
    if setting is None:
        raise InvalidRequestError(
            f"there is no setting {name}", hint=f"there are {', '.join(_SETTINGS)}", ids={"setting": name}
        )
    given = value.strip()
    return key, setting.text(_changed(key, setting, Settings(), given if setting.names else given.lower()))


def setting_rows(settings: Settings) -> Rows:
    """The rows of SHOW SETTINGS."""
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
