"""The text of a file of limits: `person`, `site` and `framework`, and `names` of single principals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

import yaml

from planner.access.limits import Limits, LimitTable
from planner.access.principal import Kind
from planner.values.errors import InvalidDefinitionError

_KINDS = {kind.value: kind for kind in (Kind.PERSON, Kind.SITE, Kind.FRAMEWORK)}
_LIMITS = tuple(field.name for field in fields(Limits))
_HINT = "It must be a file like person: {calls_per_s: 50}, names: {nightly: {live_queries: 500}}."


def read_limits(content: bytes) -> LimitTable:
    """The limits that a file's content says; what it leaves out is as by default.

    Raises:
        InvalidDefinitionError: it is no YAML, has an unknown name or a value that is no number above 0.
    """
    try:
        value = yaml.safe_load(content)
    except (yaml.YAMLError, UnicodeError, RecursionError, ValueError) as error:
        raise InvalidDefinitionError(f"it is no YAML: {str(error).partition(chr(10))[0]}", hint=_HINT) from error
    sections = _mapping(value or {}, "the file", (*_KINDS, "names"))
    kinds = dict(LimitTable().kinds)
    for word, kind in _KINDS.items():
        kinds[kind] = _limits(sections.get(word), word, kinds[kind])
    names = _mapping(sections.get("names") or {}, "names", None)
    # A name of its own begins from the limits of people.
    return LimitTable(kinds, {name: _limits(own, f"names.{name}", kinds[Kind.PERSON]) for name, own in names.items()})


def _limits(value: object, where: str, base: Limits) -> Limits:
    given = _mapping(value or {}, where, _LIMITS)
    for name, number in given.items():
        whole = name != "calls_per_s"
        if isinstance(number, bool) or not isinstance(number, int if whole else int | float):
            raise InvalidDefinitionError(
                f"{where}.{name} is {number!r}", hint=f"A {'whole ' if whole else ''}number above 0."
            )
    changed = replace(base, **given)
    for problem in changed.validate():
        raise InvalidDefinitionError(f"{where}: {problem}", hint=_HINT)
    return changed


def _mapping(value: object, where: str, known: tuple[str, ...] | None) -> Mapping[str, Any]:
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise InvalidDefinitionError(f"{where} is no mapping", hint=_HINT)
    for key in value:
        if known is not None and key not in known:
            raise InvalidDefinitionError(f"{where} has {key}", found=key, hint=f"There are {', '.join(known)}.")
    return value
