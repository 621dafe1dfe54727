"""Authenticates members by their certificates, where connections have TLS."""

from __future__ import annotations

from collections.abc import Mapping

from master.access.authentication import Certificate, Identity
from planner.access.principal import Kind, Principal
from planner.access.roles import FRAMEWORK, SITE
from wire.certificates import read_certificate
from wire.names import Role

_KINDS: Mapping[Role, tuple[Kind, str]] = {Role.SITE: (Kind.SITE, SITE), Role.FRAMEWORK: (Kind.FRAMEWORK, FRAMEWORK)}


class MemberCertificates:
    """Reads certificates that the server has verified (`wire.callers`): sites and frameworks need no token.

    A client's or producer's certificate says nothing of the person who calls, so there a token decides.
    """

    def identity(self, certificate: Certificate) -> Identity | None:
        """The site or framework that the certificate names; None: it names neither."""
        pem = next(iter(certificate.get("x509_pem_cert", ())), None)
        if pem is None:
            return None
        try:
            member = read_certificate(pem).member
        except ValueError:
            return None
        if member is None or member.role not in _KINDS:
            return None
        kind, role = _KINDS[member.role]
        return Identity(Principal(kind, member.name, frozenset({role}), frozenset({member.name})))
