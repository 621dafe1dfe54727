"""A whole cluster with TLS: results are DuckDB's, strangers are turned away, certificates are renewed meanwhile."""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import selat
from selat.dev.certificates import TLS, DevCertificates
from tests.e2e.cluster import check_against_oracle, running_cluster, submit, wait_until
from tests.e2e.dataset import write_dataset
from tests.e2e.faults import REPLAY, Scene
from tests.e2e.queries import CASES
from tests.handshake import handshake
from wire.authority import Authority
from wire.files import read_material
from wire.names import MASTER, MemberName, Role, site

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.timeout(300)]

COUNTED = tuple(case for case in CASES if case.name in ("count_per_window", "join"))


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """All sites in one process; streams take twenty seconds."""
    root = tmp_path_factory.mktemp("tls")
    dataset = write_dataset(root / "input")
    with running_cluster(root / "cluster", heartbeat_timeout_s=60, tls=True) as cluster:
        with selat.connect(cluster.address, tls_dir=cluster.tls_dir) as client:
            list(client.script(dataset.ddl(source=REPLAY)))
        yield Scene(cluster, dataset, {})


def certificates(scene: Scene) -> DevCertificates:
    return DevCertificates(scene.cluster.data.root / TLS)


def servers(scene: Scene) -> list[tuple[str, MemberName]]:
    """Every port with the member that is there."""
    agents = [(address, site(name)) for name, address in scene.cluster.site_addresses.items()]
    return [(scene.cluster.address, MASTER), *agents]


def test_results_are_those_of_the_oracle_while_certificates_are_renewed(scene: Scene) -> None:
    made = certificates(scene)
    with selat.connect(scene.cluster.address, tls_dir=scene.cluster.tls_dir) as client:
        queries = submit(client, COUNTED)
        made.issue(scene.cluster.sites)
        fresh = {MASTER: made.master, **{site(name): made.sites / name for name in scene.cluster.sites}}
        for address, member in servers(scene):
            serial = read_material(fresh[member]).certificate.serial
            # A handshake beside the one that took the new files over may still have the old certificate.
            wait_until(
                lambda address=address, member=member, serial=serial: (
                    handshake(address, member, made.client, made.client) == ("TLSv1.3", serial)
                )
            )
        rows = check_against_oracle(scene.dataset, COUNTED, queries)
        assert rows > 50
        assert {s.state for s in client.sites()} == {selat.SiteState.ALIVE}


def test_older_versions_of_tls_are_refused_everywhere(scene: Scene) -> None:
    own = certificates(scene).client
    for address, member in servers(scene):
        with pytest.raises(OSError, match=r"(?i)alert|eof|reset|ended"):
            handshake(address, member, own, own, ssl.TLSVersion.TLSv1_2)
        assert handshake(address, member, own, own)[0] == "TLSv1.3"


def test_nobody_comes_in_without_a_certificate_of_this_authority(scene: Scene, tmp_path: Path) -> None:
    own = certificates(scene).client
    stranger = tmp_path / "stranger"
    Authority.create(tmp_path / "authority", "selat dev").issue(MemberName(Role.CLIENT, "dev"), stranger)
    for address, member in servers(scene):
        for certificate in (None, stranger):
            with pytest.raises(OSError, match=r"(?i)alert|eof|reset|ended"):
                handshake(address, member, certificate, own)


def run(scene: Scene, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "selat", "--master", scene.cluster.address, *arguments]
    variables = {name: value for name, value in os.environ.items() if not name.startswith("SELAT_")}
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=variables)


def test_the_command_needs_a_certificate(scene: Scene) -> None:
    assert run(scene, "site", "list", "--tls-dir", scene.cluster.tls_dir).returncode == 0
    refused = run(scene, "site", "list")
    assert refused.returncode == 5
    assert "no master answers" in refused.stderr


def test_rows_are_pushed_by_a_producer_and_not_in_anothers_name(scene: Scene, tmp_path: Path) -> None:
    Authority(certificates(scene).authority).issue(MemberName(Role.PRODUCER, "shop"), tmp_path / "shop")
    with selat.connect(scene.cluster.address, tls_dir=scene.cluster.tls_dir) as client:
        client.sql("CREATE STREAM sold (id BIGINT, ts TIMESTAMP, WATERMARK FOR ts) AT us WITH ('connector' = 'push')")
        rows = tmp_path / "rows.csv"
        rows.write_text("id,ts\n1,2026-03-01T00:00:00Z\n2,2026-03-01T00:00:01Z\n")
        push = ("push", "sold", str(rows), "--site", "us", "--tls-dir", str(tmp_path / "shop"))
        pushed = run(scene, *push)
        assert pushed.returncode == 0, pushed.stderr
        assert '"rows": 2' in pushed.stdout
        refused = run(scene, *push, "--producer", "warehouse")
        assert refused.returncode == 3
        assert "CALLER_REFUSED" in refused.stderr
        client.drop("sold")


def test_a_producer_reads_nothing(scene: Scene, tmp_path: Path) -> None:
    Authority(certificates(scene).authority).issue(MemberName(Role.PRODUCER, "shop"), tmp_path / "shop")
    refused = run(scene, "query", "list", "--tls-dir", str(tmp_path / "shop"))
    assert refused.returncode == 3
    assert "producer/shop may not call" in refused.stderr


def test_the_doctor_looks_at_the_certificate(scene: Scene) -> None:
    found = run(scene, "doctor", "--tls-dir", scene.cluster.tls_dir, "-o", "table").stdout
    assert "is that of client/dev, valid for another" in found
