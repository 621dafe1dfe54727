"""The oracle itself: its views hold what was written, and its queries run."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.dataset import write_dataset
from tests.e2e.oracle import connect, expected
from tests.e2e.queries import CASES


def test_every_case_has_an_answer(tmp_path: Path) -> None:
    db = connect(write_dataset(tmp_path, rows_per_site=3000))

    assert expected(db, "SELECT count(*), count(price) < count(*) FROM orders").rows == ((9000, True),)
    for case in CASES:
        assert expected(db, case.oracle), case.name
