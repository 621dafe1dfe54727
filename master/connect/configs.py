"""Answers about the settings of a session, and changes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from master.base.errors import InvalidRequestError
from master.connect.sessions import Session
from planner.connect.settings import DEFAULTS, checked_setting
from planner.values.errors import UnsupportedSqlError

Pair = tuple[str, str | None]


def configured(operation: Any, session: Session) -> list[Pair]:
    """Apply a `ConfigRequest.Operation`, and return what it asks for.

    Raises:
        UnsupportedSqlError: a setting is not known, or cannot have that value.
        InvalidRequestError: nothing is asked.
    """
    kind = operation.WhichOneof("op_type")
    if kind not in _OPERATIONS:
        raise InvalidRequestError("the request has no operation that is known")
    return list(_OPERATIONS[kind](getattr(operation, kind), session))


def _set(asked: Any, session: Session) -> Iterator[Pair]:
    found = [checked_setting(pair.key, pair.value) for pair in asked.pairs]
    session.settings.update(found)
    return iter(())


def _unset(asked: Any, session: Session) -> Iterator[Pair]:
    for key in asked.keys:
        session.settings.pop(key, None)
    return iter(())


def _get(asked: Any, session: Session) -> Iterator[Pair]:
    known = _known(session)
    for key in asked.keys:
        if key not in known:
            raise UnsupportedSqlError(
                f"there is no setting {key[:200]}", found=key, ids={"condition": "SQL_CONF_NOT_FOUND"}
            )
        yield key, known[key]


def _get_with_default(asked: Any, session: Session) -> Iterator[Pair]:
    known = _known(session)
    for pair in asked.pairs:
        yield pair.key, known.get(pair.key, pair.value if pair.HasField("value") else None)


def _get_option(asked: Any, session: Session) -> Iterator[Pair]:
    known = _known(session)
    yield from ((key, known.get(key)) for key in asked.keys)


def _get_all(asked: Any, session: Session) -> Iterator[Pair]:
    prefix = asked.prefix if asked.HasField("prefix") else ""
    yield from (
        (key.removeprefix(prefix), value) for key, value in sorted(_known(session).items()) if key.startswith(prefix)
    )


def _is_modifiable(asked: Any, session: Session) -> Iterator[Pair]:
    for key in asked.keys:
        yield key, str(_modifiable(key)).lower()


def _known(session: Session) -> Mapping[str, str]:
    return {**DEFAULTS, **session.settings}


def _modifiable(name: str) -> bool:
    try:
        checked_setting(name, DEFAULTS.get(name, ""))
    except UnsupportedSqlError:
        return False
    return True


_OPERATIONS: Mapping[str, Callable[[Any, Session], Iterator[Pair]]] = {
    "set": _set,
    "unset": _unset,
    "get": _get,
    "get_with_default": _get_with_default,
    "get_option": _get_option,
    "get_all": _get_all,
    "is_modifiable": _is_modifiable,
}
