"""Encryption between an agent and the executors of its cluster.

Spark's own connections are authenticated and encrypted by `SETTINGS`. What Spark carries can then be trusted, so it
brings executors the one certificate with which the file server answers: it is made anew at each start, its key never
leaves the agent, and nobody has to install anything at an executor.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Final
from xml.sax.saxutils import escape

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

TRUST_STORE, CLIENT_SETTINGS = "selat-files.p12", "selat-files-ssl.xml"
DIRECTORY = "files-tls"
"""Below the scratch directory: what the driver trusts. Executors have theirs in their working directories."""
EXECUTORS = "executors"
"""Below that: what executors are sent."""

SECRET: Final = "spark.authenticate.secret"
SETTINGS: Final[Mapping[str, str]] = {
    "spark.authenticate": "true",
    "spark.network.crypto.enabled": "true",
    "spark.network.crypto.saslFallback": "false",
}

_LIFE = timedelta(days=3650)
_SLACK = timedelta(days=1)
"""Clocks of executors may differ by so much."""
_PASSWORD = "selat"
"""A store with nothing but a certificate has no secret; Hadoop wants a password all the same."""
_SETTING = "<property><name>ssl.client.truststore.{}</name><value>{}</value></property>"


def contradiction(settings: Mapping[str, str]) -> str:
    """The setting that turns encryption off; empty when none does."""
    return next((key for key, value in SETTINGS.items() if settings.get(key, value).strip().lower() != value), "")


def encrypting(scratch: Path, settings: Mapping[str, str]) -> dict[str, str]:
    """Spark's settings for an encrypted cluster.

    Args:
        scratch: The agent's directory for files of one start.
        settings: Those that were given, class paths among them.
    """
    (scratch / DIRECTORY).mkdir(exist_ok=True)
    return {
        **SETTINGS,
        "spark.hadoop.hadoop.ssl.client.conf": CLIENT_SETTINGS,
        # Hadoop asks for the name that an executor's resolver gives the address. One key is trusted: names add nothing.
        "spark.hadoop.hadoop.ssl.hostname.verifier": "ALLOW_ALL",
        # Hadoop finds those client settings on the class path alone.
        "spark.driver.extraClassPath": _joined(settings.get("spark.driver.extraClassPath"), str(scratch / DIRECTORY)),
        "spark.executor.extraClassPath": _joined(settings.get("spark.executor.extraClassPath"), "."),
    }


def new_certificate(scratch: Path) -> tuple[ssl.SSLContext, tuple[Path, ...]]:
    """A certificate for the file server, trusted by the driver from now on.

    Returns:
        What the server listens with, and the files that executors need in their working directories.

    Raises:
        OSError: the files cannot be written.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    certificate = _self_signed(key)
    directory = scratch / DIRECTORY
    for_executors = directory / EXECUTORS
    for_executors.mkdir(exist_ok=True)
    for where, store in ((directory, directory / TRUST_STORE), (for_executors, Path(TRUST_STORE))):
        (where / TRUST_STORE).write_bytes(_trust_store(certificate))
        (where / CLIENT_SETTINGS).write_text(_client_settings(store))
    return _context(key, certificate, directory), (for_executors / TRUST_STORE, for_executors / CLIENT_SETTINGS)


def _joined(given: str | None, ours: str) -> str:
    return os.pathsep.join([given, ours] if given else [ours])


def _self_signed(key: ec.EllipticCurvePrivateKey) -> x509.Certificate:
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "selat files")])
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SLACK)
        .not_valid_after(now + _LIFE)
        .sign(key, hashes.SHA256())
    )


def _trust_store(certificate: x509.Certificate) -> bytes:
    entry = pkcs12.PKCS12Certificate(certificate, b"selat-files")
    return pkcs12.serialize_java_truststore([entry], serialization.BestAvailableEncryption(_PASSWORD.encode()))


def _client_settings(store: Path) -> str:
    values = {"location": str(store), "type": "PKCS12", "password": _PASSWORD}
    settings = "".join(_SETTING.format(name, escape(value)) for name, value in values.items())
    return f"<configuration>{settings}</configuration>\n"


def _context(key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate, directory: Path) -> ssl.SSLContext:
    """Python reads keys from files alone: there is one, the agent's own, while it does."""
    encoding = serialization.Encoding.PEM
    secret = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    with NamedTemporaryFile(dir=directory) as file:
        file.write(secret + certificate.public_bytes(encoding))
        file.flush()
        context.load_cert_chain(file.name)
    return context
