"""Columns whose values are names of directories, as in `country=us/day=2026-01-31/`: of sinks and of tables."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from planner.relations.catalog import Relation
from planner.relations.options import Option, OptionError

NULL_DIRECTORY = "__HIVE_DEFAULT_PARTITION__"
"""Stands for NULL and for the empty string, as in Spark."""

_TYPES = frozenset({"STRING", "TINYINT", "SMALLINT", "INT", "BIGINT", "BOOLEAN", "DATE"})
"""Types whose values make names of directories."""


def partition_option(summary: str) -> Option[tuple[str, ...]]:
    """The option that names the columns."""
    return Option("partition_by", _parse_names, "names of columns as in 'country, day'", (), summary=summary)


def check_partitions(relation: Relation, names: Sequence[str], option: Option[tuple[str, ...]]) -> None:
    """Whether a relation can be partitioned by columns of these names; of one without columns it is not known yet.

    Raises:
        OptionError: it cannot.
    """
    kind = relation.kind.value
    known = {column.name: column.type for column in relation.columns}
    if not known:
        return
    for name in names:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"its columns are {', '.join(known)}"
            raise _error(option, f"the {kind} is partitioned by {name}, which is none of its columns", hint)
        # A query's column has no type before Spark was asked.
        if known[name] and known[name].upper() not in _TYPES:
            raise _error(
                option,
                f"the {kind} is partitioned by {name}, which is {known[name]}",
                "texts, whole numbers, BOOLEAN and DATE make names of directories",
            )
    if len(names) == len(known):
        raise _error(
            option, f"the {kind} is partitioned by all its columns, and its files would have none", "leave one out"
        )


def _error(option: Option[tuple[str, ...]], message: str, hint: str) -> OptionError:
    return OptionError(message, option=option.name, hint=hint)


def _parse_names(text: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(","))
    if not all(names) or len(set(names)) < len(names):
        raise ValueError(text)
    return names
