"""The transport security of a process: a certificate for mutual TLS, or none and what plain connections are made of."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wire.errors import WireError
from wire.names import MemberName
from wire.times import now
from wire.transport import TCP, Transport

if TYPE_CHECKING:
    from wire.certificates import Certificate
    from wire.files import Current, Revoked


@dataclass(frozen=True, slots=True)
class Identity:
    """The current certificate of this member, and the certificates that are revoked."""

    name: MemberName
    current: Current
    revoked: Revoked


@dataclass(frozen=True, slots=True)
class Security:
    """The transport security that channels and servers are made with."""

    identity: Identity | None = None
    """None: connections are neither encrypted nor authenticated."""
    transport: Transport = TCP
    """What connections are made of when they are not encrypted."""

    @classmethod
    def of(cls, directory: Path, wanted: MemberName | None = None) -> Security:
        """Mutual TLS with the certificate in a directory.

        Raises:
            WireError: it cannot be used, or is not that of the member that is wanted.
        """
        from wire.files import Current, Revoked  # loads cryptography, which plain connections do not need

        current = Current(directory)
        name = current.material().certificate.member
        assert name is not None
        if wanted is not None and name != wanted:
            raise WireError(
                f"the certificate in {directory} is that of {name}, not of {wanted}",
                f"give the directory of {wanted}: selat cert issue {wanted.role} {wanted.name}",
            )
        return cls(Identity(name, current, Revoked(directory)))

    @property
    def on(self) -> bool:
        """Whether connections are encrypted and both ends authenticated."""
        return self.identity is not None

    def refuses(self, certificate: Certificate) -> str:
        """Why a certificate of the authority is refused now; empty when it is accepted."""
        if self.identity is not None and self.identity.revoked.has(certificate.serial):
            return "revoked"
        return "" if certificate.valid_at(now()) else "out of date"


PLAIN = Security()
"""No transport security: for loopback and tests."""
