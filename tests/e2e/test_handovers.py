"""A sample of `make handovers`: handovers with a fault in their middle, results equal DuckDB's, and nothing is left."""

from __future__ import annotations

import pytest

from tests.e2e.faults import Scene
from tests.handovers.plan import PAIRS, Kind, draw
from tests.handovers.run import play

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(400)]

SAMPLE = (
    (Kind.ALONE, "none"),
    (Kind.SHARED, "old dies at seed-stored"),
    (Kind.SWAP, "none"),
    (Kind.SWAP, "kill old and new"),
)


@pytest.mark.parametrize(("kind", "fault"), SAMPLE)
def test_a_handover_with_its_fault(isolated: Scene, kind: Kind, fault: str) -> None:
    seed = next(n for n, pair in enumerate(PAIRS) if (pair[0], str(pair[1])) == (kind, fault))
    assert play(isolated, draw(seed)).wrong == []
