from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from site_agent.engine.scans.row_groups import can_be_rewritten, row_groups


@pytest.mark.parametrize("dictionary", [False, True])
def test_row_groups_lie_one_after_the_other(tmp_path: Path, dictionary: bool) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"a": list(range(100)), "b": [str(n % 7) for n in range(100)]})
    pq.write_table(table, path, row_group_size=30, use_dictionary=dictionary)
    groups = row_groups(pq.read_metadata(path))
    assert [g.offset for g in groups] == sorted(g.offset for g in groups)
    assert groups[0].offset == len(b"PAR1")
    ends = [g.offset + g.size_bytes for g in groups]
    assert all(end <= following.offset for end, following in zip(ends, groups[1:], strict=False))
    assert ends[-1] < path.stat().st_size
    assert all(g.offset <= g.middle < g.offset + g.size_bytes for g in groups)


def test_timestamps_of_twelve_bytes_cannot_be_copied(tmp_path: Path) -> None:
    table = pa.table({"a": [1], "ts": [datetime(2026, 1, 1, tzinfo=UTC)]})
    for name, old in (("new", False), ("old", True)):
        pq.write_table(table, tmp_path / name, use_deprecated_int96_timestamps=old)
    assert can_be_rewritten(pq.read_metadata(tmp_path / "new"))
    assert not can_be_rewritten(pq.read_metadata(tmp_path / "old"))
