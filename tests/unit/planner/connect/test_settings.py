"""Settings of a client's session."""

from __future__ import annotations

import pytest

from planner.connect.settings import DEFAULTS, FOR_SPARK, KEPT, checked_setting
from planner.values.errors import UnsupportedSqlError


@pytest.mark.parametrize("name", sorted({*FOR_SPARK, *KEPT}))
def test_each_has_a_value_from_the_start_and_may_be_set_to_it(name: str) -> None:
    assert checked_setting(name, DEFAULTS[name]) == (name, DEFAULTS[name])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("spark.sql.warehouse.dir", "/tmp"),
        ("spark.sql.catalog.other", "org.example.Catalog"),
        ("spark.sql.extensions", "org.example.Extension"),
        ("spark.sql.ansi.enabled", "perhaps"),
        ("spark.sql.session.timeZone", "UTC; DROP"),
    ],
)
def test_others_are_refused(name: str, value: str) -> None:
    with pytest.raises(UnsupportedSqlError):
        checked_setting(name, value)
