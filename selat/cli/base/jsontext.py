"""JSON as the command writes it: exact decimals, ISO 8601 times in UTC, no NaN."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from json.encoder import encode_basestring
from typing import Any


def dumps(value: Any) -> str:
    """One value as JSON on one line.

    A decimal is a number with all its digits; NaN and infinities are strings, as Spark writes them; bytes are base64; a
    duration is its seconds.
    """
    encoder = _ENCODERS.get(type(value))
    return encoder(value) if encoder else _other(value)


def plain(value: Any) -> Any:
    """A value of `selat.values` as objects, lists and scalars; a duration `x` becomes the number `x_s`."""
    if is_dataclass(value) and not isinstance(value, type):
        return dict(_plain_field(f.name, getattr(value, f.name)) for f in fields(value))
    if isinstance(value, (tuple, list)):
        return [plain(item) for item in value]
    return value.value if isinstance(value, Enum) else value


def instant_text(value: datetime) -> str:
    """ISO 8601; an instant in UTC ends in Z, a local time has no zone."""
    if value.tzinfo is None:
        return value.isoformat()
    return value.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def _plain_field(name: str, value: Any) -> tuple[str, Any]:
    if isinstance(value, timedelta):
        return f"{name}_s", value.total_seconds()
    return name, plain(value)


def _float(value: float) -> str:
    if math.isfinite(value):
        return repr(value)
    return '"NaN"' if math.isnan(value) else '"Infinity"' if value > 0 else '"-Infinity"'


def _object(value: Mapping[Any, Any]) -> str:
    return "{" + ", ".join(f"{_key(key)}: {dumps(item)}" for key, item in value.items()) + "}"


def _key(key: Any) -> str:
    return _text(key if isinstance(key, str) else dumps(key).strip('"'))


def _array(value: list[Any] | tuple[Any, ...]) -> str:
    return "[" + ", ".join(map(dumps, value)) + "]"


def _other(value: Any) -> str:
    if isinstance(value, Enum):
        return dumps(value.value)
    if isinstance(value, Mapping):
        return _object(value)
    if isinstance(value, tuple):
        return _array(value)
    if is_dataclass(value):
        return _object(plain(value))
    return _text(str(value))


def _text(value: str) -> str:
    text = encode_basestring(value)
    return text if text.isprintable() else text.translate(_CONTROL)


_CONTROL = {code: f"\\u{code:04x}" for code in range(0x7F, 0xA0)}
"""Control characters that JSON does not require to be escaped, but that a terminal would obey."""

_ENCODERS: dict[type, Callable[[Any], str]] = {
    type(None): lambda value: "null",
    bool: lambda value: "true" if value else "false",
    int: repr,
    float: _float,
    str: _text,
    Decimal: lambda value: format(value, "f"),
    datetime: lambda value: f'"{instant_text(value)}"',
    date: lambda value: f'"{value.isoformat()}"',
    time: lambda value: f'"{value.isoformat()}"',
    timedelta: lambda value: _float(value.total_seconds()),
    bytes: lambda value: f'"{base64.b64encode(value).decode("ascii")}"',
    dict: _object,
    list: _array,
    tuple: _array,
}
