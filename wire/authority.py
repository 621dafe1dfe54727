"""A certificate authority in a directory: for one cluster, by hand, without a service.

    ca.pem  ca.key        the authority's own certificate, and its private key
    issued.jsonl          a line for each certificate that it has issued
    revoked.pem           its list of those that are revoked, for members to copy

Every certificate has a key of its own, on the curve P-256, made where it is issued.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from machine.private import NotPrivateError, make_private, opener
from wire.certificates import Certificate, described
from wire.errors import WireError
from wire.files import CA, KEY, MEMBER, REVOKED, read_revoked, write
from wire.names import MemberName, Role, member_name
from wire.times import now

CA_KEY, ISSUED = "ca.key", "issued.jsonl"
_OWN = {CA, MEMBER, KEY, REVOKED, CA_KEY, ISSUED}
CA_LIFE = timedelta(days=3650)
MEMBER_LIFE = timedelta(days=30)
SLACK = timedelta(minutes=5)
"""Certificates are valid from this long before they are issued: members' clocks may be behind."""

_LIST_LIFE = timedelta(days=3650)
_LONGEST_NAME = 64
"""The longest common name that X.509 allows. Members are recognised by the alternative names, not by this one."""
_SIGNED_WITH = hashes.SHA256()


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate that an authority has issued."""

    member: MemberName
    serial: int
    ends: datetime
    revoked: bool = False

    def to_json(self) -> str:
        values = {"role": self.member.role, "name": self.member.name, "serial": f"{self.serial:x}"}
        return json.dumps({**values, "ends": self.ends.isoformat()})

    @classmethod
    def from_json(cls, text: str, revoked: frozenset[int]) -> Issued:
        """Raises ValueError, KeyError or WireError when a line is damaged."""
        values = json.loads(text)
        serial = int(values["serial"], 16)
        member = member_name(values["role"], values["name"])
        return cls(member, serial, datetime.fromisoformat(values["ends"]), serial in revoked)


class Authority:
    """Issues and revokes certificates. Several processes may use one at once."""

    def __init__(self, directory: Path) -> None:
        """Opens an existing authority. Raises WireError when there is none, or it is damaged."""
        self.directory = directory
        pem, key = _read(directory / CA), _read(directory / CA_KEY)
        try:
            self._certificate = x509.load_pem_x509_certificate(pem)
            private = serialization.load_pem_private_key(key, password=None)
        except (ValueError, TypeError) as error:
            raise WireError(f"the authority in {directory} is damaged: {error}", "restore it from a copy") from None
        if not isinstance(private, ec.EllipticCurvePrivateKey):
            raise WireError(f"{directory / CA_KEY} is no key on an elliptic curve", "make one with `selat cert init`")
        self._key = private

    @classmethod
    def create(cls, directory: Path, name: str, life: timedelta = CA_LIFE) -> Authority:
        """Creates an authority. Raises WireError when one exists already, or the directory cannot be made."""
        make_directory(directory)
        with _locked(directory):
            if (directory / CA_KEY).exists():
                raise WireError(
                    f"there is an authority in {directory} already",
                    "use it, or name another directory: members do not trust two of the same name",
                )
            key = ec.generate_private_key(ec.SECP256R1())
            write(directory / CA_KEY, _key_pem(key))
            write(directory / CA, _pem(_own_certificate(key, name, life)))
            write(directory / REVOKED, _revocation_list(key, name, []))
        return cls(directory)

    @property
    def certificate(self) -> Certificate:
        return described(self._certificate)

    def issue(self, member: MemberName, directory: Path, life: timedelta = MEMBER_LIFE) -> Certificate:
        """A new key and certificate for a member, in a directory that is made if need be.

        Raises:
            WireError: the name is taken, or the directory cannot be written.
        """
        with _locked(self.directory):
            self._check_free(member)
            make_directory(directory)
            key = ec.generate_private_key(ec.SECP256R1())
            certificate = self._sign(member, key.public_key(), life)
            found = described(certificate)
            with open(self.directory / ISSUED, "a", opener=opener) as file:
                file.write(Issued(member, found.serial, found.ends).to_json() + "\n")
            self.hand_out(directory)
            # The key first: a reader between the two writes sees that they do not match, and waits for the certificate.
            write(directory / KEY, _key_pem(key))
            write(directory / MEMBER, _pem(certificate))
        return found

    def issued(self) -> list[Issued]:
        """All certificates that it has issued, oldest first. Raises WireError when the record is damaged."""
        path = self.directory / ISSUED
        try:
            revoked = read_revoked(self.directory)
            lines = path.read_text().splitlines() if path.exists() else []
            return [Issued.from_json(line, revoked) for line in lines]
        except (OSError, ValueError, KeyError) as error:
            raise WireError(f"{path} is damaged: {error}", "restore it from a copy") from None

    def revoke(self, serials: Iterable[int]) -> int:
        """Adds certificates to the list of revoked ones, which keeps expired ones too; returns how many it added."""
        with _locked(self.directory):
            before = read_revoked(self.directory)
            after = before | set(serials)
            write(self.directory / REVOKED, _revocation_list(self._key, self._name, sorted(after)))
        return len(after) - len(before)

    def hand_out(self, directory: Path) -> None:
        """Copy what everybody may know, the authority's certificate and its list, to a member.

        Another authority that the member trusts stays: one takes over from another while both are trusted.
        """
        own, path = _read(self.directory / CA), directory / CA
        known = path.read_bytes() if path.exists() else b""
        if own not in known:
            write(path, known + own)
        write(directory / REVOKED, _read(self.directory / REVOKED))

    @property
    def _name(self) -> str:
        (name,) = self._certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
        return str(name.value)

    def _check_free(self, member: MemberName) -> None:
        """Clients and producers push under their names, so no client may have a producer's."""
        pushing = {Role.CLIENT, Role.PRODUCER}
        if member.role not in pushing:
            return
        (other,) = pushing - {member.role}
        taken = (i for i in self.issued() if i.member == MemberName(other, member.name))
        if any(not issued.revoked and issued.ends > now() for issued in taken):
            raise WireError(
                f"there is a {other} named {member.name}, and both could push under that name",
                "choose another name, or revoke the other's certificate",
            )

    def _sign(self, member: MemberName, public: ec.EllipticCurvePublicKey, life: timedelta) -> x509.Certificate:
        begins = now() - SLACK
        ends = min(now() + life, self._certificate.not_valid_after_utc)
        if ends <= now():
            raise WireError(f"the authority in {self.directory} is out of date", "make another with `selat cert init`")
        uses = [ExtendedKeyUsageOID.CLIENT_AUTH, *([ExtendedKeyUsageOID.SERVER_AUTH] if member.serves else [])]
        names = [x509.DNSName(member.host), x509.UniformResourceIdentifier(member.uri)]
        return (
            _builder(str(member)[:_LONGEST_NAME], self._name, public)
            .not_valid_before(begins)
            .not_valid_after(ends)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(uses), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, _SIGNED_WITH)
        )


def _own_certificate(key: ec.EllipticCurvePrivateKey, name: str, life: timedelta) -> x509.Certificate:
    return (
        _builder(name, name, key.public_key())
        .not_valid_before(now() - SLACK)
        .not_valid_after(now() + life)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
        .sign(key, _SIGNED_WITH)
    )


def _builder(subject: str, issuer: str, public: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(_common_name(subject))
        .issuer_name(_common_name(issuer))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
    )


def _common_name(text: str) -> x509.Name:
    """Raises WireError when it is empty or longer than certificates allow."""
    try:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])
    except ValueError:
        raise WireError(f"{text!r} cannot stand in a certificate", "1 to 64 characters") from None


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _revocation_list(key: ec.EllipticCurvePrivateKey, name: str, serials: list[int]) -> bytes:
    builder = x509.CertificateRevocationListBuilder().issuer_name(_common_name(name))
    builder = builder.last_update(now() - SLACK).next_update(now() + _LIST_LIFE)
    for serial in serials:
        entry = x509.RevokedCertificateBuilder().serial_number(serial).revocation_date(now()).build()
        builder = builder.add_revoked_certificate(entry)
    return builder.sign(key, _SIGNED_WITH).public_bytes(serialization.Encoding.PEM)


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _key_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise WireError(f"cannot read {path}: {error.strerror}", "make an authority with `selat cert init`") from None


def make_directory(directory: Path) -> None:
    """Make a directory for a member's files, private to its owner.

    Raises:
        WireError: other files are in it, which would be closed to their readers too.
    """
    try:
        found = {path.name for path in directory.iterdir()} if directory.is_dir() else set()
        others = sorted(name for name in found - _OWN if not name.startswith("."))
        if others:
            raise WireError(
                f"there are other files in {directory}, as {others[0]}", "name a directory for certificates alone"
            )
        make_private(directory)
    except NotPrivateError as error:
        raise WireError(str(error), error.hint) from None
    except OSError as error:
        raise WireError(f"cannot make {directory}: {error.strerror}", "name a directory of your own") from None


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
