"""Stand-ins for columns that only functions read."""

from __future__ import annotations

import pytest

from planner.rules.standins import stand_in
from planner.values.scans import SparkExpression


def of(kind: str, *literals: str | None, before: bool = False) -> SparkExpression:
    column = SparkExpression("AttributeReference", "", "c")
    others = tuple(SparkExpression("Literal", "", text) for text in literals)
    return SparkExpression(kind, "", None, (*others, column) if before else (column, *others))


def since(unit: str | None) -> SparkExpression:
    return of("TruncTimestamp", unit, before=True)


YEAR, MONTH, QUARTER = of("Year"), of("Month"), of("Quarter")


@pytest.mark.parametrize(
    ("kind", "functions", "sent"),
    [
        ("STRING", [of("Substring", "1", "2")], "substring(input.c, 1, 2)"),
        ("STRING", [of("Substring", "1", "2"), of("Substring", "1", "5")], "substring(input.c, 1, 5)"),
        ("STRING", [of("Substring", "2", "2")], None),
        ("STRING", [of("Substring", "1", "-1")], None),
        ("STRING", [of("Substring", "1", None)], None),
        ("DATE", [YEAR], "trunc(input.c, 'YEAR')"),
        ("DATE", [YEAR, QUARTER], "trunc(input.c, 'QUARTER')"),
        ("DATE", [MONTH, of("TruncDate", "yy")], "trunc(input.c, 'MONTH')"),
        ("DATE", [of("TruncDate", "week")], "trunc(input.c, 'WEEK')"),
        ("DATE", [of("TruncDate", "week"), YEAR], None),
        # It gives NULL.
        ("DATE", [of("TruncDate", "day")], None),
        ("DATE", [of("TruncDate", None)], None),
        ("TIMESTAMP", [since("Hour"), since("WEEK")], "date_trunc('HOUR', input.c)"),
        ("TIMESTAMP", [since("month"), since("WEEK")], None),
        ("TIMESTAMP", [since("fortnight")], None),
        ("TIMESTAMP", [YEAR], None),
        ("TIMESTAMP_NTZ", [since("HOUR")], None),
        ("BINARY", [of("Substring", "1", "2")], None),
    ],
)
def test_one_value_stands_for_all_of_which_the_functions_give_the_same(
    kind: str, functions: list[SparkExpression], sent: str | None
) -> None:
    found = stand_in("c", kind, functions)
    assert (found.sql().lower() if found is not None else None) == (sent.lower() if sent else None)
