"""Certificates of members, made for a test."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from wire import authority as authority_module
from wire.authority import Authority
from wire.names import member_name
from wire.security import Security
from wire.times import now


@dataclass(frozen=True, slots=True)
class Certificates:
    """An authority, and the directories of its members below one root."""

    root: Path

    @classmethod
    def create(cls, root: Path) -> Certificates:
        root.mkdir(parents=True, exist_ok=True)
        Authority.create(root / "authority", "test")
        return cls(root)

    @property
    def authority(self) -> Authority:
        return Authority(self.root / "authority")

    def issue(self, role: str, name: str, life: timedelta = timedelta(days=30)) -> Path:
        """A new certificate for that member; its directory."""
        directory = self.root / f"{role}-{name}"
        self.authority.issue(member_name(role, name), directory, life)
        return directory

    def of(self, role: str, name: str) -> Security:
        """The member's security; a certificate is issued when there is none."""
        directory = self.root / f"{role}-{name}"
        return Security.of(directory if directory.exists() else self.issue(role, name))

    def revoke(self, role: str, name: str, *told: Path) -> None:
        """Revoke all of the member's certificates, and tell those directories."""
        wanted = member_name(role, name)
        self.authority.revoke(issued.serial for issued in self.authority.issued() if issued.member == wanted)
        for directory in told:
            self.authority.hand_out(directory)


def ago(monkeypatch: pytest.MonkeyPatch, length: timedelta) -> None:
    """Certificates that are issued from now on were issued so long ago."""

    def then() -> datetime:
        return now() - length

    monkeypatch.setattr(authority_module, "now", then)
