"""Every function of the pinned Spark is in exactly one of the tables. (tests/integration asks Spark for the list.)"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from planner.functions.aggregates import MERGEABLE
from planner.functions.table import ALLOWED, NAMES, REASONS, REFUSED
from planner.functions.traits import AGGREGATES, BARE_NOT_REPEATABLE, RANKS, TIME_UNIT_FUNCTIONS

SPARK = frozenset(Path(__file__).with_name("spark_functions.txt").read_text().split())
"""`SHOW FUNCTIONS` of the pinned Spark."""

BY_SYNTAX = frozenset(("identifier", "timestampadd", "timestampdiff", "try_cast"))
"""Names that look like calls but are syntax to Spark."""


def test_every_function_of_spark_was_looked_at() -> None:
    assert NAMES | REASONS.keys() == SPARK | BY_SYNTAX


def test_no_function_is_in_two_groups() -> None:
    counted = Counter(name for group in (*ALLOWED.values(), *REFUSED.values()) for name in group)
    assert [name for name, count in counted.items() if count > 1] == []


def test_what_the_planner_knows_more_of_can_be_called() -> None:
    assert NAMES.issuperset((*AGGREGATES, *MERGEABLE, *RANKS, *TIME_UNIT_FUNCTIONS))
    assert REASONS.keys() >= BARE_NOT_REPEATABLE


@pytest.mark.parametrize(
    "name",
    [
        *("reflect", "try_reflect", "java_method", "input_file_name", "input_file_block_start", "current_user"),
        *("version", "spark_partition_id", "monotonically_increasing_id", "uuid", "rand", "aes_encrypt", "range"),
        *("from_avro", "from_protobuf", "xpath", "from_xml", "python_worker_logs", "window_time"),
    ],
)
def test_what_must_stay_out_is_out(name: str) -> None:
    assert name in REASONS
    assert name not in NAMES
