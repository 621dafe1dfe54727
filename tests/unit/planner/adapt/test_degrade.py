"""A source that has fallen behind lets in a share of its rows."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.adapt.degrade import LEAST_SHARE, next_share
from planner.values.adapting import Degrade, Degrading

AFTER = timedelta(seconds=40)
SAMPLE, LATE = Degrading(Degrade.SAMPLE, AFTER), Degrading(Degrade.LATE, AFTER)


@pytest.mark.parametrize(
    ("degrading", "share", "behind_s", "since_s", "found"),
    [
        (LATE, 1.0, 40.0, 0.0, 1.0),
        (LATE, 1.0, 41.0, 0.0, 0.0),
        (LATE, 0.0, 30.0, 100.0, 0.0),
        (LATE, 0.0, 20.0, 0.0, 1.0),
        (SAMPLE, 1.0, 40.0, 100.0, 1.0),
        (SAMPLE, 1.0, 41.0, 9.0, 1.0),
        (SAMPLE, 1.0, 41.0, 10.0, 0.5),
        (SAMPLE, 0.5, 30.0, 100.0, 0.5),
        (SAMPLE, 0.4, 20.0, 10.0, 0.5),
        (SAMPLE, 0.95, 20.0, 10.0, 1.0),
        (SAMPLE, LEAST_SHARE, 1000.0, 10.0, LEAST_SHARE),
    ],
)
def test_the_next_share(degrading: Degrading, share: float, behind_s: float, since_s: float, found: float) -> None:
    assert next_share(degrading, share, behind_s=behind_s, since_s=since_s) == pytest.approx(found)


@given(st.sampled_from([SAMPLE, LATE]), st.floats(0, 1), st.floats(0, 1e6), st.floats(0, 1e6))
def test_more_rows_are_never_let_in_because_they_wait_for_longer(
    degrading: Degrading, share: float, behind_s: float, since_s: float
) -> None:
    found = next_share(degrading, share, behind_s=behind_s, since_s=since_s)
    assert 0 <= found <= 1
    assert found >= next_share(degrading, share, behind_s=behind_s + 10, since_s=since_s) or share < LEAST_SHARE


@pytest.mark.parametrize("capacity", [0.2, 0.5, 0.9])
def test_a_source_comes_to_send_about_what_gets_through(capacity: float) -> None:
    """One row comes each second, of which a link carries so much; epochs leave in their order.

    What was sent before rows are left out has to cross the link first.
    """
    share, changed_s, sent, through, waits = 1.0, 0, [], 0.0, []
    for now_s in range(4000):
        sent.append(share)
        carried = capacity
        while through < len(sent) and carried > 1e-9:
            number = int(through)
            left = sent[number] * (1 - (through - number)) if sent[number] else 0.0
            if left > carried:
                through += carried / sent[number]
                break
            carried -= left
            through = number + 1.0
        behind_s = now_s + 1 - through
        found = next_share(SAMPLE, share, behind_s=behind_s, since_s=now_s - changed_s)
        changed_s = changed_s if found == share else now_s
        share = found
        waits.append(behind_s)
    assert max(waits) < (1 + 1 / capacity) * AFTER.total_seconds()
    assert sum(sent[1000:]) / 3000 >= 0.6 * capacity
