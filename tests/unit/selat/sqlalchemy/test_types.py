"""Types of columns."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import types

from selat.sqlalchemy.types import Spelled, type_of


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("BIGINT", types.BIGINT),
        ("int", types.INTEGER),
        ("TINYINT", types.SMALLINT),
        ("FLOAT", types.REAL),
        ("DOUBLE", types.DOUBLE),
        ("STRING", types.String),
        ("BINARY", types.LargeBinary),
        ("BOOLEAN", types.BOOLEAN),
        ("DATE", types.DATE),
    ],
)
def test_plain_types(text: str, kind: type[Any]) -> None:
    assert type(type_of(text)) is kind


def test_types_with_parameters() -> None:
    decimal = type_of("DECIMAL(10,2)")
    assert isinstance(decimal, types.DECIMAL)
    assert (decimal.precision, decimal.scale) == (10, 2)
    instant, local = type_of("TIMESTAMP"), type_of("TIMESTAMP_NTZ")
    assert isinstance(instant, types.TIMESTAMP)
    assert isinstance(local, types.TIMESTAMP)
    assert (instant.timezone, local.timezone) == (True, False)


def test_others_are_as_they_are_spelled() -> None:
    found = type_of("ARRAY<INT>")
    assert isinstance(found, Spelled)
    assert str(found) == "ARRAY<INT>"
