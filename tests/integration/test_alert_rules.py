"""The alert rules, by promtool."""

from __future__ import annotations

from tests.needs import unless
from tests.prometheus import LACK, RULES, promtool

pytestmark = unless(LACK)


def test_the_rules_are_well_formed() -> None:
    promtool("check", "rules", str(RULES))


def test_each_alert_fires_where_something_is_wrong_and_none_where_nothing_is() -> None:
    promtool("test", "rules", str(RULES.with_name("alerts_test.yml")))


def test_the_configuration_to_begin_with_is_well_formed() -> None:
    promtool("check", "config", str(RULES.with_name("prometheus.yml")))
