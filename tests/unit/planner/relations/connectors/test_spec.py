"""What a declaration refuses, in which order, and what it says of its options."""

from __future__ import annotations

import pytest

from planner.relations.catalog import Relation, RelationKind
from planner.relations.connectors.spec import ConnectorSpec
from planner.relations.options import Option, OptionError, parse_positive_int

RELATION = Relation("r", RelationKind.STREAM, (), ())
SHARE = Option("column.<name>.share", float, "a number", 0.0)
COLUMN = Option("column.<name>", parse_positive_int, "a whole number", 1)
SIZE = Option("size", parse_positive_int, "a whole number", 1, alterable=True)
KEY = Option("key", parse_positive_int, "a whole number", 1, secret=True)
URL = Option("url", str, "an address", "", required=True)
SPEC = ConnectorSpec("c", frozenset({RelationKind.STREAM}), (SHARE, COLUMN, SIZE, KEY, URL))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"siez": "x", "size": "x"}, "there is no option 'siez'"),
        ({"size": "x"}, "option 'url' is missing"),
        ({"url": "", "size": "x"}, "option 'url' is missing"),
        ({"url": "u", "size": "x"}, "option 'size' is 'x'"),
        ({"url": "u", "key": "x"}, "option 'key' is 'x'"),
        ({"url": "u", "column.a.share": "x"}, "option 'column.a.share' is 'x'"),
        ({"url": "u", "column.a": "x"}, "option 'column.a' is 'x'"),
        ({"url": "u", "column.": "1"}, "there is no option 'column.'"),
    ],
)
def test_the_first_that_is_wrong_is_named(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        SPEC.check_options(RELATION, {"connector": "c", **options})
    assert caught.value.message == message
    assert caught.value.hint


def test_a_reference_to_a_secret_is_left_to_the_site() -> None:
    SPEC.check_options(RELATION, {"connector": "c", "url": "u", "key": "${secret:k}"})


def test_the_first_of_two_families_takes_a_name_that_both_have() -> None:
    options = {"column.a": "2", "column.b.share": "0.5", "size": "3"}
    assert SPEC.family(SHARE, options) == {"b": 0.5}
    assert SPEC.family(COLUMN, options) == {"a": 2}


def test_options_that_queries_do_not_take_over_are_fixed() -> None:
    assert SPEC.fixed == ("column.<name>.share", "column.<name>", "key", "url")
