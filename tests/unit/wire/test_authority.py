"""Certificates from their issue to their end, on disk."""

from __future__ import annotations

import itertools
import logging
import os
import shutil
import stat
from datetime import timedelta
from pathlib import Path

import pytest

from tests.certificates import Certificates, ago
from tests.handed import ROOT_LACK, as_service, handed
from tests.needs import unless
from wire.authority import CA_KEY, Authority
from wire.errors import WireError
from wire.files import CA, KEY, MEMBER, REVOKED, Current, Revoked, read_material
from wire.names import MASTER, member_name, site
from wire.security import Security
from wire.times import now

DAY = timedelta(days=1)


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates.create(tmp_path / "tls")


def test_what_is_issued_is_its_owners_alone(certificates: Certificates) -> None:
    directory = certificates.issue("site", "us")
    for path in (directory, certificates.root / "authority"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
        assert {stat.S_IMODE(file.stat().st_mode) for file in path.iterdir()} == {0o600}
    assert {file.name for file in directory.iterdir()} == {CA, MEMBER, KEY, REVOKED}


def test_a_certificate_names_its_member_and_ends_in_time(certificates: Certificates) -> None:
    found = read_material(certificates.issue("site", "us", 2 * DAY)).certificate
    assert found.member == site("us")
    assert timedelta(0) < found.ends - now() <= 2 * DAY
    assert found.begins < now()


def test_no_certificate_outlives_its_authority(tmp_path: Path) -> None:
    authority = Authority.create(tmp_path / "authority", "short", DAY)
    authority.issue(MASTER, tmp_path / "master", 30 * DAY)
    assert read_material(tmp_path / "master").certificate.ends == authority.certificate.ends


def test_an_authority_is_not_made_over_another(certificates: Certificates) -> None:
    before = (certificates.root / "authority" / CA).read_bytes()
    with pytest.raises(WireError, match="there is an authority"):
        Authority.create(certificates.root / "authority", "again")
    assert (certificates.root / "authority" / CA).read_bytes() == before


def test_a_directory_with_other_files_is_left_alone(certificates: Certificates, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o755)
    (home / "letter.txt").write_text("")
    with pytest.raises(WireError, match=r"there are other files in .*home, as letter\.txt"):
        certificates.authority.issue(site("us"), home)
    assert stat.S_IMODE(home.stat().st_mode) == 0o755


def test_a_client_cannot_have_a_producers_name(certificates: Certificates) -> None:
    certificates.issue("producer", "orders")
    with pytest.raises(WireError, match="there is a producer named orders"):
        certificates.issue("client", "orders")
    certificates.revoke("producer", "orders")
    certificates.issue("client", "orders")


def test_what_was_issued_and_revoked_is_on_record(certificates: Certificates) -> None:
    certificates.issue("site", "us")
    certificates.issue("site", "eu")
    certificates.revoke("site", "us")
    assert [(str(i.member), i.revoked) for i in certificates.authority.issued()] == [
        ("site/us", True),
        ("site/eu", False),
    ]
    assert certificates.authority.revoke(i.serial for i in certificates.authority.issued()) == 1


def replaced(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o600)


def test_a_missing_file_is_named(certificates: Certificates) -> None:
    directory = certificates.issue("site", "us")
    (directory / KEY).unlink()
    with pytest.raises(WireError, match=r"cannot read .*member\.key: No such file"):
        Security.of(directory)


@pytest.mark.parametrize("name", [CA, MEMBER, KEY, REVOKED])
def test_a_damaged_file_is_named(certificates: Certificates, name: str) -> None:
    directory = certificates.issue("site", "us")
    replaced(directory / name, b"nonsense")
    with pytest.raises(WireError, match=name.replace(".", r"\.")):
        Security.of(directory)


def test_a_key_that_others_can_read_is_refused(certificates: Certificates) -> None:
    directory = certificates.issue("site", "us")
    (directory / KEY).chmod(0o640)
    with pytest.raises(WireError, match="can be read or written by others") as caught:
        Security.of(directory)
    assert caught.value.hint == f"chmod 600 {directory / KEY}"


@unless(ROOT_LACK)
def test_a_key_that_root_hands_to_a_group_is_taken_by_its_members(certificates: Certificates) -> None:
    with handed(certificates.issue("site", "us")) as directory:
        with as_service():
            assert read_material(directory).certificate.member == site("us")
        (directory / KEY).chmod(0o460)
        with as_service(), pytest.raises(WireError, match="can be read or written by others") as caught:
            read_material(directory)
        assert caught.value.hint == f"chmod 640 {directory / KEY}"
        with pytest.raises(WireError, match="can be read or written by others"):
            read_material(directory)


def test_a_key_of_another_certificate_is_refused(certificates: Certificates) -> None:
    us, eu = certificates.issue("site", "us"), certificates.issue("site", "eu")
    replaced(us / KEY, (eu / KEY).read_bytes())
    with pytest.raises(WireError, match="is not the key of"):
        Security.of(us)


def test_a_certificate_of_another_authority_is_refused(certificates: Certificates, tmp_path: Path) -> None:
    directory = certificates.issue("site", "us")
    other = Certificates.create(tmp_path / "other").issue("site", "us")
    replaced(directory / CA, (other / CA).read_bytes())
    (directory / REVOKED).unlink()
    with pytest.raises(WireError, match=r"was not issued by an authority in ca\.pem"):
        Security.of(directory)


def test_a_list_of_another_authority_is_refused(certificates: Certificates, tmp_path: Path) -> None:
    directory = certificates.issue("site", "us")
    other = Certificates.create(tmp_path / "other").issue("site", "us")
    replaced(directory / REVOKED, (other / REVOKED).read_bytes())
    with pytest.raises(WireError, match="is not signed by an authority"):
        Security.of(directory)


def test_a_certificate_that_is_out_of_date_is_refused(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    ago(monkeypatch, 40 * DAY)
    directory = certificates.issue("site", "us", 30 * DAY)
    with pytest.raises(WireError, match=r"the certificate of site/us in .* is valid from") as caught:
        Security.of(directory)
    assert "selat cert renew" in caught.value.hint
    assert read_material(directory, out_of_date=True).certificate.member == site("us")


def test_a_certificate_of_another_member_is_refused(certificates: Certificates) -> None:
    with pytest.raises(WireError, match="is that of site/us, not of site/eu"):
        Security.of(certificates.issue("site", "us"), site("eu"))


def test_a_renewed_certificate_is_taken_over(certificates: Certificates) -> None:
    directory = certificates.issue("site", "us")
    current = Current(directory)
    before = current.material()
    assert current.material() is before
    certificates.issue("site", "us")
    after = current.material()
    assert after.certificate.serial != before.certificate.serial
    assert current.material() is after


class Volume:
    """A directory as Kubernetes mounts a secret: names lead over a link to a directory, which an update exchanges."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._versions = itertools.count()

    def update(self, member: Path) -> None:
        """Exchange the content for that of a member's directory."""
        version = f"..version_{next(self._versions)}"
        shutil.copytree(member, self.root / version)
        for file in (self.root / version).iterdir():
            if not (self.root / file.name).is_symlink():
                (self.root / file.name).symlink_to(f"..data/{file.name}")
        (self.root / "..new").symlink_to(version)
        (self.root / "..new").replace(self.root / "..data")
        for before in set(self.root.glob("..version_*")) - {self.root / version}:
            shutil.rmtree(before)


def test_an_update_of_a_secret_of_kubernetes_is_taken_over(certificates: Certificates, tmp_path: Path) -> None:
    volume = Volume(tmp_path)
    volume.update(certificates.issue("site", "us"))
    current, revoked = Current(tmp_path), Revoked(tmp_path)
    before = current.material()
    assert not revoked.has(before.certificate.serial)
    renewed = certificates.issue("site", "us")
    certificates.authority.revoke([before.certificate.serial])
    certificates.authority.hand_out(renewed)
    volume.update(renewed)
    after = current.material()
    assert after.certificate.serial == read_material(renewed).certificate.serial != before.certificate.serial
    assert current.material() is after
    assert revoked.has(before.certificate.serial)


def test_half_a_renewal_is_waited_for(certificates: Certificates, caplog: pytest.LogCaptureFixture) -> None:
    directory = certificates.issue("site", "us")
    current = Current(directory)
    before, old_key = current.material(), (directory / KEY).read_bytes()
    certificates.issue("site", "us")
    new_key = (directory / KEY).read_bytes()
    replaced(directory / KEY, old_key + b"\n")
    with caplog.at_level(logging.WARNING):
        assert current.material() is before
    assert "is not the key of" in caplog.text
    replaced(directory / KEY, new_key)
    assert current.material() is not before


def test_the_certificate_of_another_member_is_not_taken_over(certificates: Certificates) -> None:
    us, eu = certificates.issue("site", "us"), certificates.issue("site", "eu")
    current = Current(us)
    before = current.material()
    for name in (KEY, MEMBER):
        replaced(us / name, (eu / name).read_bytes())
    assert current.material() is before


def test_a_new_list_is_taken_over_and_a_lost_one_is_not(certificates: Certificates) -> None:
    master, us = certificates.issue("master", "master"), certificates.issue("site", "us")
    serial = read_material(us).certificate.serial
    revoked = Revoked(master)
    assert not revoked.has(serial)
    certificates.revoke("site", "us", master)
    assert revoked.has(serial)
    replaced(master / REVOKED, b"nonsense")
    assert revoked.has(serial)
    (master / REVOKED).unlink()
    assert revoked.has(serial)


def test_an_authority_takes_over_from_another(certificates: Certificates, tmp_path: Path) -> None:
    directory = certificates.issue("site", "us")
    second = Authority.create(tmp_path / "second", "second")
    second.issue(site("us"), directory)
    assert read_material(directory).certificate.issuer == "CN=second"
    assert (directory / CA).read_bytes().count(b"BEGIN CERTIFICATE") == 2
    second.issue(site("us"), directory)
    assert (directory / CA).read_bytes().count(b"BEGIN CERTIFICATE") == 2


def test_an_authority_that_is_none_says_so(tmp_path: Path) -> None:
    with pytest.raises(WireError, match="cannot read") as caught:
        Authority(tmp_path)
    assert caught.value.hint == "make an authority with `selat cert init`"


def test_nothing_is_left_of_a_write(certificates: Certificates) -> None:
    directory = certificates.issue("site", "us")
    assert not [
        name for path in (directory, certificates.root / "authority") for name in os.listdir(path) if name[0] == "."
    ]
    assert (certificates.root / "authority" / CA_KEY).exists()
    assert member_name("site", "us") == site("us")
