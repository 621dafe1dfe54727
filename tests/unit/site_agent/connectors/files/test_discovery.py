from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from site_agent.base.errors import ConnectorError
from site_agent.connectors.files.discovery import DiscoveryLog
from site_agent.connectors.files.listing import FoundFile


def found(*names: str) -> list[FoundFile]:
    return [FoundFile(f"/d/{name}", len(name), 7) for name in names]


def test_files_keep_their_place(tmp_path: Path) -> None:
    log = DiscoveryLog(tmp_path / "log")
    log.add(found("b", "a"), at_us=7)
    log.add(found("a", "0", "b"), at_us=7)
    assert log.files == found("b", "a", "0")
    assert DiscoveryLog(tmp_path / "log").files == found("b", "a", "0")


def test_nothing_is_added_after_the_end(tmp_path: Path) -> None:
    log = DiscoveryLog(tmp_path / "log")
    log.add(found("a"), at_us=7, last=True)
    log.add(found("b"), at_us=7)
    again = DiscoveryLog(tmp_path / "log")
    again.add(found("c"), at_us=7, last=True)
    assert (again.files, again.ended) == (found("a"), True)
    assert len((tmp_path / "log").read_text().splitlines()) == 2


def test_nothing_is_written_when_nothing_is_new(tmp_path: Path) -> None:
    DiscoveryLog(tmp_path / "log").add([], at_us=7)
    assert not (tmp_path / "log").exists()


@given(st.integers(0, 200))
def test_a_line_that_a_crash_cut_short_does_not_count(tmp_path_factory: pytest.TempPathFactory, cut: int) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    DiscoveryLog(path).add(found("a", "b", "c"), at_us=7)
    content = path.read_bytes()
    path.write_bytes(content[: max(0, len(content) - cut)])
    whole = content[: max(0, len(content) - cut)].count(b"\n")
    log = DiscoveryLog(path)
    assert log.files == found("a", "b", "c")[:whole]
    log.add(found("a", "b", "c"), at_us=7)
    assert DiscoveryLog(path).files == found("a", "b", "c")


def test_damage_is_told(tmp_path: Path) -> None:
    (tmp_path / "log").write_text('{"path": "/a", "size": 1, "modified_ns": 1}\nnonsense\n')
    with pytest.raises(ConnectorError, match="damaged in line 2"):
        DiscoveryLog(tmp_path / "log")
