from __future__ import annotations

import os
import socket
import ssl
import xml.etree.ElementTree as ET
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.serialization import pkcs12

from site_agent.engine.cluster.file_server import FileServer
from site_agent.engine.cluster.tls import (
    CLIENT_SETTINGS,
    DIRECTORY,
    SETTINGS,
    TRUST_STORE,
    contradiction,
    encrypting,
    new_certificate,
)

TIMEOUT_S = 10.0
REQUEST = b"GET /webhdfs/v1{}?op=OPEN HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    encrypting(tmp_path, {})
    return tmp_path


def properties(file: Path) -> dict[str, str]:
    found = ET.parse(file).getroot().iter("property")
    return {str(p.findtext("name")).rpartition(".")[2]: str(p.findtext("value")) for p in found}


def trusting(store: Path, password: str) -> ssl.SSLContext:
    """A client that trusts what the store has, and nothing else."""
    stored = pkcs12.load_pkcs12(store.read_bytes(), password.encode())
    (entry,) = stored.additional_certs
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.load_verify_locations(cadata=entry.certificate.public_bytes(serialization.Encoding.PEM).decode())
    return context


def fetched(context: ssl.SSLContext, uri: str) -> bytes:
    parts = urlsplit(uri)
    connection = socket.create_connection((parts.hostname or "", parts.port or 0), timeout=TIMEOUT_S)
    with context.wrap_socket(connection) as secured:
        secured.sendall(REQUEST.replace(b"{}", parts.path.encode()))
        return b"".join(iter(lambda: secured.recv(65536), b""))


def test_executors_are_sent_what_they_have_to_trust(scratch: Path) -> None:
    tls, (store, settings) = new_certificate(scratch)
    own = scratch / DIRECTORY
    assert (store.name, settings.name) == (TRUST_STORE, CLIENT_SETTINGS)
    assert properties(settings)["location"] == TRUST_STORE
    assert properties(own / CLIENT_SETTINGS)["location"] == str(own / TRUST_STORE)
    assert store.read_bytes() != b"" != (own / TRUST_STORE).read_bytes()
    assert not any("PRIVATE" in path.read_text(errors="replace") for path in own.rglob("*") if path.is_file())
    content = os.urandom(300_000)
    (scratch / "rows").write_bytes(content)
    server = FileServer(bind="127.0.0.1", host="127.0.0.1", tls=tls)
    try:
        with server.offered([str(scratch / "rows")]) as (uri,):
            assert uri.startswith("swebhdfs://")
            context = trusting(store, properties(settings)["password"])
            assert fetched(context, uri).endswith(content)
    finally:
        server.close()


def test_who_does_not_speak_tls_or_stops_in_the_middle_disturbs_nobody(
    scratch: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    tls, (_, settings) = new_certificate(scratch)
    (scratch / "rows").write_bytes(b"rows")
    server = FileServer(bind="127.0.0.1", host="127.0.0.1", tls=tls)
    silent = socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT_S)
    try:
        with server.offered([str(scratch / "rows")]) as (uri,):
            with socket.create_connection(("127.0.0.1", server.port), timeout=TIMEOUT_S) as plain:
                plain.sendall(REQUEST.replace(b"{}", urlsplit(uri).path.encode()))
                assert b"rows" not in b"".join(iter(lambda: plain.recv(65536), b""))
            _, (others, _) = new_certificate(scratch)
            stranger = trusting(others, properties(settings)["password"])
            with pytest.raises(ssl.SSLCertVerificationError):
                fetched(stranger, uri)
    finally:
        silent.close()
        server.close()
    assert "Traceback" not in capfd.readouterr().err
    assert "connection ended from=127.0.0.1" in caplog.text


def test_class_paths_that_were_given_stay(tmp_path: Path) -> None:
    given = {"spark.driver.extraClassPath": "/a.jar", "spark.executor.extraClassPath": "/b.jar"}
    found = encrypting(tmp_path, given)
    assert found["spark.driver.extraClassPath"] == f"/a.jar:{tmp_path / DIRECTORY}"
    assert found["spark.executor.extraClassPath"] == "/b.jar:."
    assert SETTINGS.items() <= found.items()


def test_a_setting_that_repeats_ours_is_none_against_it() -> None:
    assert contradiction({"spark.authenticate": " TRUE "}) == ""
    assert contradiction({"spark.network.crypto.enabled": "false"}) == "spark.network.crypto.enabled"
