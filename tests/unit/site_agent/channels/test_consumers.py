from __future__ import annotations

from typing import Any

import pytest

from site_agent.channels.consumers import Consumers


def test_nothing_is_given_up_without_consumers() -> None:
    assert Consumers(3).advanced() == Consumers(3)
    assert Consumers(3).acknowledge("ewr", 9) == Consumers(3)


def test_the_slowest_consumer_decides() -> None:
    both = Consumers().named(["jfk", "ewr"])
    assert both.cursors == {"ewr": 0, "jfk": 0}
    ahead = both.acknowledge("ewr", 4)
    assert (ahead.first_epoch, ahead.cursors["ewr"]) == (0, 5)
    assert ahead.acknowledge("jfk", 2).first_epoch == 3


def test_an_older_acknowledgement_changes_nothing() -> None:
    ahead = Consumers().named(["ewr"]).acknowledge("ewr", 4)
    assert ahead.acknowledge("ewr", 3) is ahead


def test_a_new_consumer_needs_what_is_kept_and_a_removed_one_nothing() -> None:
    ahead = Consumers().named(["ewr", "jfk"]).acknowledge("ewr", 4).acknowledge("jfk", 1)
    assert ahead.named(["ewr", "jfk", "lga"]).cursors == {"ewr": 5, "jfk": 2, "lga": 2}
    assert ahead.named(["ewr"]).first_epoch == 5
    assert ahead.named([]).first_epoch == 2


def test_who_has_all_and_knows_of_the_end_is_kept_until_it_is_no_consumer_any_more() -> None:
    both = Consumers().named(["ewr", "jfk"]).passed_end("ewr").passed_end("lga")
    assert both.past_end == {"ewr"}
    assert both.acknowledge("jfk", 3).past_end == {"ewr"}
    assert both.named(["jfk"]).named(["ewr", "jfk"]).past_end == frozenset()


def test_json_and_back() -> None:
    value = Consumers(2, {"ewr": 5, "jfk": 2})
    for written in (value, value.passed_end("jfk")):
        assert Consumers.from_json(written.to_json()) == written
    assert "past_end" not in value.to_json()
    broken_values: list[dict[str, Any]] = [
        {},
        {"first_epoch": 1, "cursors": {"a": "x"}},
        {"first_epoch": None, "cursors": {}},
    ]
    for broken in broken_values:
        with pytest.raises((KeyError, TypeError, ValueError)):
            Consumers.from_json(broken)


def test_a_consumer_may_need_again_what_is_kept_for_another() -> None:
    ahead = Consumers().named(["ewr", "jfk"]).acknowledge("ewr", 4).acknowledge("jfk", 1)
    again = ahead.renewed("ewr")
    assert again.cursors == {"ewr": 2, "jfk": 2}
    assert again.acknowledge("jfk", 7).first_epoch == 2
    assert ahead.passed_end("ewr").renewed("ewr").past_end == frozenset()
    assert ahead.renewed("lga") is ahead
