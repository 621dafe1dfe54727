"""What a site between sends over a narrow link, and when: beside the least, and the delay of sending each epoch."""

from __future__ import annotations

import pytest

from tests.unit.site_agent.tasks.combining import Load
from tests.unit.site_agent.tasks.combining_tree import (
    Tree,
    delay_as_written,
    least_between,
    least_of_leaves,
    simulated_tree,
)

MOST_DELAY = 1.2
LONGEST = "1 min, 100,000 uniform keys"
CASES = {
    "10 s, 1,000 uniform keys": (Tree(Load(10, 1000, 500)), 50, 1.05),
    "10 s, 10,000 uniform keys": (Tree(Load(10, 10_000, 5000)), 50, 1.05),
    "10 s, 10,000 uniform keys, none of its own": (Tree(Load(10, 10_000, 5000), own=False), 50, 1.05),
    "1 min, 100,000 keys, Zipf": (Tree(Load(60, 100_000, 5000, 1.1)), 180, 1.25),
    # As many groups come again until the window ends as the link forces to leave before.
    LONGEST: (Tree(Load(60, 100_000, 5000)), 180, 1.5),
}


@pytest.mark.parametrize(
    "name", [name if name != LONGEST else pytest.param(name, marks=pytest.mark.long) for name in CASES]
)
def test_bytes_and_delay(name: str) -> None:
    tree, seconds, most_bytes = CASES[name]
    found, sent_to_it = simulated_tree(tree, seconds=seconds)
    assert found.delay_s <= MOST_DELAY * delay_as_written(tree, seconds=seconds)
    assert found.sent_bytes <= most_bytes * least_between(tree, seconds=seconds)
    assert sent_to_it <= 1.25 * least_of_leaves(tree, seconds=seconds)


def test_where_nothing_is_sent_early_a_large_window_is_late() -> None:
    """As it is in the first window, when nothing is known of the links."""
    tree = Tree(Load(60, 100_000, 5000, 1.1))
    found, _ = simulated_tree(tree, seconds=180, early=False)
    assert found.delay_s > 1.3 * delay_as_written(tree, seconds=180)
