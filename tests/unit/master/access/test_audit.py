from __future__ import annotations

import json
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from master.access.audit import OK, AuditLog, AuditOptions
from master.access.caller import Call
from master.base.errors import AuditError
from planner.access.principal import Kind, Principal

NOW = datetime(2026, 1, 1, tzinfo=UTC)
ANN = Principal(Kind.PERSON, "ann", frozenset({"reader"}))


def call(method: str = "QueryService/Execute", peer: str = "ipv4:127.0.0.1:40000") -> Call:
    return Call(method, peer, ANN, "t-1", relations={"pages", "clicks"}, statement_sha256="ab")


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_record_says_who_did_what_to_which_relations_and_how_it_ended(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "audit.log"
    AuditLog(AuditOptions(path)).write(call(), OK, NOW)
    assert records(path) == [
        {
            "at": "2026-01-01T00:00:00.000+00:00",
            "principal": "ann",
            "kind": "person",
            "token": "t-1",
            "peer": "ipv4:127.0.0.1:40000",
            "method": "QueryService/Execute",
            "relations": ["clicks", "pages"],
            "queries": [],
            "outcome": "OK",
            "statement_sha256": "ab",
        }
    ]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_others_could_read_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    path.write_text("{}\n")
    path.chmod(0o644)
    AuditLog(AuditOptions(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_files_are_rotated_by_size_and_the_oldest_go(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(AuditOptions(path, size_bytes=600, files=2))
    for number in range(10):
        log.write(call(f"M/{number}"), OK, NOW)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["audit.log", "audit.log.1", "audit.log.2"]
    methods = [r["method"] for name in ("audit.log.2", "audit.log.1", "audit.log") for r in records(tmp_path / name)]
    assert methods == [f"M/{number}" for number in range(10 - len(methods), 10)]
    assert all(p.stat().st_size <= 600 and stat.S_IMODE(p.stat().st_mode) == 0o600 for p in tmp_path.iterdir())


def test_a_flood_of_refusals_becomes_a_line_and_a_number_a_second(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(AuditOptions(path))
    for port in range(100):
        log.write(call(peer=f"ipv4:127.0.0.1:{port}"), "LIMIT_EXCEEDED", NOW)
    log.tick(NOW)
    assert [r.get("repeated") for r in records(path)] == [None]
    log.tick(NOW + timedelta(seconds=1))
    log.tick(NOW + timedelta(seconds=2))
    assert [r.get("repeated") for r in records(path)] == [None, 99]


def test_other_refusals_are_told_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(AuditOptions(path))
    for _ in range(3):
        log.write(call(), "PERMISSION_DENIED", NOW)
    assert len(records(path)) == 3


def test_many_that_flood_are_not_all_remembered(tmp_path: Path) -> None:
    path = tmp_path / "audit.log"
    log = AuditLog(AuditOptions(path))
    for number in range(1500):
        for _ in range(2):
            log.write(call(f"M/{number}"), "UNAUTHENTICATED", NOW)
    assert len(log._folded) <= 1000
    log.tick(NOW + timedelta(seconds=1))
    assert sum(r.get("repeated", 1) for r in records(path)) == 3000


def test_a_log_that_cannot_be_written_keeps_a_master_from_starting_but_not_from_answering(tmp_path: Path) -> None:
    with pytest.raises(AuditError, match="cannot be written"):
        AuditLog(AuditOptions(Path("/proc/none/audit.log")))
    path = tmp_path / "audit.log"
    log = AuditLog(AuditOptions(path))
    path.unlink()
    path.mkdir()
    log.write(call(), OK, NOW)
