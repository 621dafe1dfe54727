"""Reads the parts of certificates that members are recognised by."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from cryptography import x509

from wire.names import MemberName, from_uri


@dataclass(frozen=True, slots=True)
class Certificate:
    """The parts of a certificate that matter here."""

    member: MemberName | None
    """The member that it names; None when it names none."""
    serial: int
    begins: datetime
    ends: datetime
    issuer: str

    def valid_at(self, moment: datetime) -> bool:
        return self.begins <= moment <= self.ends

    @property
    def serial_text(self) -> str:
        """The serial number as commands print and take it."""
        return f"{self.serial:x}"


def described(certificate: x509.Certificate) -> Certificate:
    """The parts of a certificate that matter here."""
    return Certificate(
        member=_member(certificate),
        serial=certificate.serial_number,
        begins=certificate.not_valid_before_utc,
        ends=certificate.not_valid_after_utc,
        issuer=certificate.issuer.rfc4514_string(),
    )


@lru_cache(maxsize=1024)
def read_certificate(pem: bytes) -> Certificate:
    """Reads the certificate of a peer; TLS has checked its signature. Raises ValueError when it cannot be read."""
    return described(x509.load_pem_x509_certificate(pem))


def _member(certificate: x509.Certificate) -> MemberName | None:
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return None
    found = [from_uri(uri) for uri in names.get_values_for_type(x509.UniformResourceIdentifier)]
    # A certificate with two names would be two members at once.
    return found[0] if len(found) == 1 else None
