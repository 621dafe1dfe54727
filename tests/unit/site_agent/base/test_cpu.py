from __future__ import annotations

from pathlib import Path

import pytest

from site_agent.base import cpu
from site_agent.base.cpu import cpu_wait_s


@pytest.mark.parametrize(("text", "waited_s"), [("12 2500000000 7\n", 2.5), ("", 0.0), ("0\n", 0.0), ("a b c", 0.0)])
def test_the_wait_is_the_second_number_in_nanoseconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, waited_s: float
) -> None:
    path = tmp_path / "schedstat"
    monkeypatch.setattr(cpu, "_SCHEDSTAT", path)
    assert cpu_wait_s() == 0.0
    path.write_text(text)
    assert cpu_wait_s() == waited_s
