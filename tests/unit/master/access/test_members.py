"""Members are known by their certificates; people are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from master.access.members import MemberCertificates
from planner.access.principal import Kind
from tests.certificates import Certificates
from wire.files import MEMBER


def properties(directory: Path) -> dict[str, list[bytes]]:
    """The peer's certificate as gRPC gives it to a call."""
    return {"x509_pem_cert": [(directory / MEMBER).read_bytes()]}


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates.create(tmp_path / "tls")


@pytest.mark.parametrize(("role", "kind"), [("site", Kind.SITE), ("framework", Kind.FRAMEWORK)])
def test_a_member_needs_no_token_and_speaks_for_itself_alone(certificates: Certificates, role: str, kind: Kind) -> None:
    identity = MemberCertificates().identity(properties(certificates.issue(role, "us")))
    assert identity is not None
    principal = identity.principal
    assert (principal.kind, principal.name, principal.roles) == (kind, "us", frozenset({role}))
    assert principal.speaks_for("us")
    assert not principal.speaks_for("eu")


@pytest.mark.parametrize("role", ["client", "producer"])
def test_a_certificate_of_a_program_says_nothing_of_the_person(certificates: Certificates, role: str) -> None:
    assert MemberCertificates().identity(properties(certificates.issue(role, "ann"))) is None


@pytest.mark.parametrize("found", [{}, {"x509_pem_cert": []}, {"x509_pem_cert": [b"no certificate"]}])
def test_without_a_certificate_a_token_decides(found: dict[str, list[bytes]]) -> None:
    assert MemberCertificates().identity(found) is None
