"""The transport security of a process, in one value."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from wire.errors import WireError
from wire.names import MemberName
from wire.times import now

if TYPE_CHECKING:
    from wire.certificates import Certificate
    from wire.files import Current, Revoked


@dataclass(frozen=True, slots=True)
class Identity:
    """Who this member is, as its files say now, and whom it does not trust any more."""

    name: MemberName
    current: Current
    revoked: Revoked


@dataclass(frozen=True, slots=True)
class Security:
    """Given to everything that connects or listens."""

    identity: Identity | None = None
    """None: nothing is encrypted, and nobody is asked who it is."""

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
        """True: connections are encrypted, and both ends say who they are."""
        return self.identity is not None

    def refuses(self, certificate: Certificate) -> str:
        """The reason for which a certificate of the authority is not taken now; empty when it is taken."""
        if self.identity is not None and self.identity.revoked.has(certificate.serial):
            return "revoked"
        return "" if certificate.valid_at(now()) else "out of date"


PLAIN = Security()
"""On loopback, and in tests."""
