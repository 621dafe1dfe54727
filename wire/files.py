"""The directory of a member's certificate, read anew when it changes.

ca.pem        certificates of the authorities that are trusted; several while one takes over from another
member.pem    the member's own certificate
member.key    its private key, for its owner alone (0600), or root's and readable for a group (0640)
revoked.pem   the authority's list of revoked certificates; may be missing
"""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from machine.private import opener, way_to_close
from wire.certificates import Certificate, described
from wire.errors import WireError
from wire.times import now

CA, MEMBER, KEY, REVOKED = "ca.pem", "member.pem", "member.key", "revoked.pem"

logger = logging.getLogger("selat.wire")

_ISSUE = "make one with `selat cert issue`"


@dataclass(frozen=True, slots=True)
class Material:
    """Key, certificate and trusted authorities of a TLS handshake, and the member that the certificate names."""

    roots: bytes
    chain: bytes
    certificate: Certificate
    key: bytes = field(repr=False)


def read_material(directory: Path, *, out_of_date: bool = False) -> Material:
    """Reads and checks the certificate in a directory; with `out_of_date` an expired one passes.

    Raises:
        WireError: a file is missing, open to others, damaged or out of date, or they do not belong together.
    """
    roots, chain, key = _read(directory / CA), _read(directory / MEMBER), _read_key(directory / KEY)
    own, authorities = _certificate(directory / MEMBER, chain), _certificates(directory / CA, roots)
    _check_key(directory, own, key)
    if not any(_issued(own, authority) for authority in authorities):
        raise WireError(
            f"{directory / MEMBER} was not issued by an authority in {CA}", f"copy the authority's {CA} there"
        )
    found = described(own)
    if found.member is None:
        raise WireError(f"{directory / MEMBER} does not name a member", _ISSUE)
    if not out_of_date and not found.valid_at(now()):
        raise WireError(
            f"the certificate of {found.member} in {directory} is valid from {_day(found.begins)} to"
            f" {_day(found.ends)}, and now is {_day(now())}",
            "renew it with `selat cert renew`, or set the clock",
        )
    return Material(roots, chain, found, key)


class Current:
    """The newest valid material of a directory. Thread-safe."""

    def __init__(self, directory: Path) -> None:
        """Raises WireError when there is none."""
        self.directory = directory
        self._lock = threading.Lock()
        self._seen = _signature(directory, (CA, MEMBER, KEY))
        self._material = read_material(directory)

    def material(self) -> Material:
        """The material in the files now; while a renewal is incomplete or invalid, the last valid one."""
        seen = _signature(self.directory, (CA, MEMBER, KEY))
        if seen == self._seen:
            return self._material
        with self._lock:
            if seen != self._seen:
                # In this order: other threads wait for the new material meanwhile.
                self._take_over()
                self._seen = seen
            return self._material

    def _take_over(self) -> None:
        try:
            material = read_material(self.directory)
        except WireError as error:
            # The next file of a renewal changes the signature again.
            logger.warning("certificate not taken over, the one before stays: %s", error.message)
            return
        if material.certificate.member != self._material.certificate.member:
            logger.error("%s has the certificate of another member, the one before stays", self.directory)
            return
        if material != self._material:
            logger.info("certificate taken over, valid until %s", _day(material.certificate.ends))
        self._material = material


class Revoked:
    """The serial numbers of the certificates that an authority has revoked."""

    def __init__(self, directory: Path) -> None:
        """Raises WireError when there is a list and it cannot be used."""
        self._directory = directory
        self._lock = threading.Lock()
        self._seen = _signature(directory, (REVOKED,))
        self._serials = read_revoked(directory)

    def has(self, serial: int) -> bool:
        """True when that certificate may not be used any more."""
        seen = _signature(self._directory, (REVOKED,))
        if seen != self._seen:
            with self._lock:
                self._seen = seen
                self._take_over()
        return serial in self._serials

    def _take_over(self) -> None:
        try:
            found = read_revoked(self._directory)
        except WireError as error:
            logger.error("list of revoked certificates not taken over, the one before stays: %s", error.message)  # noqa: TRY400 - no defect
            return
        if not (self._directory / REVOKED).exists() and self._serials:
            logger.error("%s is gone, the list before stays", self._directory / REVOKED)
            return
        logger.info("%d certificates are revoked", len(found))
        self._serials = found


def read_revoked(directory: Path) -> frozenset[int]:
    """The revoked serial numbers; none without a list.

    Raises:
        WireError: it is damaged, or not signed by an authority of the directory.
    """
    path = directory / REVOKED
    if not path.exists():
        return frozenset()
    try:
        found = x509.load_pem_x509_crl(_read(path))
        signed = any(_signed(found, authority) for authority in _certificates(directory / CA, _read(directory / CA)))
    except ValueError as error:
        raise WireError(f"{path} is no list of revoked certificates: {error}", "copy the authority's there") from None
    if not signed:
        raise WireError(f"{path} is not signed by an authority in {CA}", "copy the authority's there")
    return frozenset(entry.serial_number for entry in found)


def _signed(revoked: x509.CertificateRevocationList, authority: x509.Certificate) -> bool:
    key = authority.public_key()
    return isinstance(key, ec.EllipticCurvePublicKey) and revoked.is_signature_valid(key)


def _issued(certificate: x509.Certificate, authority: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _check_key(directory: Path, certificate: x509.Certificate, key: bytes) -> None:
    try:
        private = load_pem_private_key(key, password=None)
    except (ValueError, TypeError) as error:
        raise WireError(f"{directory / KEY} is no private key: {error}", _ISSUE) from None
    if not isinstance(private, ec.EllipticCurvePrivateKey):
        # With keys of other kinds gRPC would also speak TLS 1.2; see `wire.tls13`.
        raise WireError(f"{directory / KEY} is no key on an elliptic curve", _ISSUE)
    if private.public_key() != certificate.public_key():
        raise WireError(f"{directory / KEY} is not the key of {directory / MEMBER}", _ISSUE)


def _certificate(path: Path, pem: bytes) -> x509.Certificate:
    return _certificates(path, pem)[0]


def _certificates(path: Path, pem: bytes) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError as error:
        raise WireError(f"{path} is no certificate: {error}", _ISSUE) from None


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise WireError(f"cannot read {path}: {error.strerror}", _ISSUE) from None


def _read_key(path: Path) -> bytes:
    try:
        with open(path, "rb") as file:
            # Of the open file: another may have replaced it at its path.
            found, key = os.fstat(file.fileno()), file.read()
    except OSError as error:
        raise WireError(f"cannot read {path}: {error.strerror}", _ISSUE) from None
    if hint := way_to_close(path, found):
        raise WireError(f"{path} can be read or written by others", hint)
    return key


def write(path: Path, content: bytes) -> None:
    """Replaces a file atomically, with mode 0600. Raises WireError when it cannot be written."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(temporary, "wb", opener=opener) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise WireError(f"cannot write {path}: {error.strerror}", "name a directory to write to") from None


def _signature(directory: Path, names: tuple[str, ...]) -> tuple[tuple[int, int, int], ...]:
    """A value that changes when one of the files does."""
    return tuple(_file_signature(directory / name) for name in names)


def _file_signature(path: Path) -> tuple[int, int, int]:
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0)
    return (found.st_ino, found.st_mtime_ns, found.st_size)


def _day(moment: object) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
