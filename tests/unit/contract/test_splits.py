from __future__ import annotations

import pytest

from contract.splits import parts_from_proto, split_to_proto
from planner.graph.plan import Split
from planner.values.splits import FilePart

PARTS = (FilePart("/a", 3, 4), FilePart("", 0, 2**40))


@pytest.mark.parametrize("parts", [(), PARTS])
def test_a_split_is_the_same_at_the_other_end(parts: tuple[FilePart, ...]) -> None:
    message = split_to_proto(Split("us", parts, 13))
    assert (parts_from_proto(message), message.size_bytes) == (parts, 13)
