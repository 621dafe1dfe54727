"""A member's files come from a URL whole, or not at all."""

from __future__ import annotations

import functools
import http.server
import shutil
import stat
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.certificates import Certificates
from wire.errors import WireError
from wire.fetching import FILES, fetch
from wire.files import CA, KEY, MEMBER, REVOKED, Current, read_material
from wire.names import site


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates.create(tmp_path / "tls")


@pytest.fixture
def url(certificates: Certificates) -> Iterator[str]:
    """Serves the directories of all members, on loopback."""
    handler = functools.partial(Quiet, directory=str(certificates.root))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_directory_that_is_not_there_is_made(certificates: Certificates, url: str, tmp_path: Path) -> None:
    certificates.issue("site", "us")
    directory = tmp_path / "etc" / "tls"
    assert fetch(f"{url}/site-us", directory)
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


@pytest.fixture
def own(tmp_path: Path) -> Path:
    directory = tmp_path / "own"
    directory.mkdir(mode=0o700)
    return directory


def contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def test_an_empty_directory_is_filled(certificates: Certificates, url: str, own: Path) -> None:
    issued = certificates.issue("site", "us")
    assert fetch(f"{url}/site-us", own)
    assert contents(own) == {name: (issued / name).read_bytes() for name in FILES}
    assert {stat.S_IMODE(path.stat().st_mode) for path in own.iterdir()} == {0o600}


def test_what_is_there_already_is_left_alone(certificates: Certificates, url: str, own: Path) -> None:
    certificates.issue("site", "us")
    fetch(f"{url}/site-us", own)
    before = {path.name: path.stat().st_ino for path in own.iterdir()}
    assert not fetch(f"{url}/site-us/", own)
    assert {path.name: path.stat().st_ino for path in own.iterdir()} == before


def test_a_renewed_certificate_is_taken_over_by_who_uses_it(certificates: Certificates, url: str, own: Path) -> None:
    certificates.issue("site", "us")
    fetch(f"{url}/site-us", own)
    current = Current(own)
    before = current.material().certificate.serial
    certificates.issue("site", "us")
    assert fetch(f"{url}/site-us", own)
    assert current.material().certificate.serial not in (before,)
    assert current.material().certificate.member == site("us")


def test_members_keep_a_good_certificate_while_files_are_replaced(
    certificates: Certificates, url: str, own: Path
) -> None:
    certificates.issue("site", "us")
    fetch(f"{url}/site-us", own)
    current = Current(own)
    before = current.material().certificate.serial
    issued = certificates.issue("site", "us")
    for name in FILES[:-1]:
        shutil.copy(issued / name, own / name)
        assert current.material().certificate.serial == before
    shutil.copy(issued / KEY, own / KEY)
    assert current.material().certificate.serial == read_material(issued).certificate.serial


@pytest.mark.parametrize("name", FILES)
def test_nothing_is_replaced_when_a_file_is_missing(certificates: Certificates, url: str, own: Path, name: str) -> None:
    certificates.issue("site", "us")
    fetch(f"{url}/site-us", own)
    before = contents(own)
    issued = certificates.issue("site", "us")
    (issued / name).unlink()
    with pytest.raises(WireError, match=f"{name} cannot be had: HTTP Error 404"):
        fetch(f"{url}/site-us", own)
    assert contents(own) == before


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (MEMBER, b"<html>", "member.pem is no certificate"),
        (KEY, b"", "member.key is no private key"),
        (CA, b"", "ca.pem is no certificate"),
        (REVOKED, b"x", "revoked.pem is no list of revoked certificates"),
        (KEY, b"x" * 1_048_577, "is longer than 1048576 bytes"),
    ],
)
def test_nothing_is_replaced_by_what_is_wrong(
    certificates: Certificates, url: str, own: Path, name: str, content: bytes, said: str
) -> None:
    certificates.issue("site", "us")
    fetch(f"{url}/site-us", own)
    before = contents(own)
    (certificates.root / "site-us" / name).write_bytes(content)
    with pytest.raises(WireError, match=said) as raised:
        fetch(f"{url}/site-us", own)
    assert ".fetched" not in raised.value.message
    assert contents(own) == before


def test_half_of_a_renewal_is_not_taken_over(certificates: Certificates, url: str, own: Path) -> None:
    certificates.issue("site", "us")
    fetch(f"{url}/site-us", own)
    before = contents(own)
    key = (certificates.root / "site-us" / KEY).read_bytes()
    issued = certificates.issue("site", "us")
    (issued / KEY).write_bytes(key)
    with pytest.raises(WireError, match=r"member\.key is not the key of member\.pem"):
        fetch(f"{url}/site-us", own)
    assert contents(own) == before


def test_another_members_certificate_is_refused(certificates: Certificates, url: str, own: Path) -> None:
    certificates.issue("site", "us")
    certificates.issue("site", "eu")
    fetch(f"{url}/site-us", own)
    before = contents(own)
    with pytest.raises(WireError, match=r"has the certificate of site/eu, .* that of site/us"):
        fetch(f"{url}/site-eu", own)
    assert contents(own) == before


@pytest.mark.parametrize("url", ["file:///etc", "/etc", "ftp://x"])
def test_other_addresses_are_refused(own: Path, url: str) -> None:
    with pytest.raises(WireError, match="is no address of the web"):
        fetch(url, own)
