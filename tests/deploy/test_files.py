"""Units, images, the compose file and the chart: by linters, and rendered; nothing of them is run by an engine here."""

from __future__ import annotations

import configparser
import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from planner.values.topology_text import read_topology_text
from tests.deploy.facts import note
from tests.deploy.tools import ROOT, lack_of, run, tool
from tests.needs import Lack, Need, unless
from wire.files import KEY, read_material
from wire.names import MASTER, site

DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "selat"
ROLES = ("master", "agent")
SECTION = "files"


@unless(lack_of("shellcheck"))
def test_shell_scripts() -> None:
    scripts = [DEPLOY / "member" / "start", DEPLOY / "member" / "selat-member", ROOT / "scripts" / "setup_deploy"]
    scripts += [DEPLOY / "compose" / "certificates"]
    scripts += [ROOT / "tests" / "deploy" / "machine.sh", ROOT / "tests" / "deploy" / "systemctl"]
    run(tool("shellcheck"), *map(str, scripts))
    note(SECTION, "shell scripts", how="`shellcheck`", found=f"{len(scripts)} files, no complaint")


@unless(lack_of("systemd-analyze"))
@pytest.mark.parametrize("role", [*ROLES, "certificates"])
def test_units(role: str, tmp_path: Path) -> None:
    unit = DEPLOY / "systemd" / f"selat-{role}.service"
    # The entry point and the settings are not on this machine; the rest of the unit is what is verified.
    copy = tmp_path / unit.name
    copy.write_text(re.sub(r"^ExecStart=.*$", "ExecStart=/bin/true", unit.read_text(), flags=re.MULTILINE))
    run("systemd-analyze", "verify", "--recursive-errors=no", str(copy))
    said = run("systemd-analyze", "security", "--offline=true", "--no-pager", "--threshold=30", str(copy))
    score = re.search(r"exposure level for .*: ([0-9.]+) (\w+)", said)
    assert score, said
    note(
        SECTION,
        f"unit of the {role}",
        how="`systemd-analyze verify`, `security --offline`",
        found=f"no complaint; exposure {score[1]} of 10, {score[2]}",
    )


@pytest.mark.parametrize("role", ROLES)
def test_units_have_one_place_for_what_protects(role: str) -> None:
    unit = configparser.RawConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[method-assign,assignment]
    unit.read(DEPLOY / "systemd" / f"selat-{role}.service")
    assert unit["Service"]["EnvironmentFile"] == f"/etc/selat/{role}.env"
    assert unit["Service"]["ExecStart"] == f"/opt/selat/current/selat-member {role}"
    assert "SELAT_SECURITY_FLAGS" in (DEPLOY / "member" / "selat-member").read_text()


@unless(lack_of("hadolint"))
def test_images_by_the_linter() -> None:
    files = sorted((DEPLOY / "images").glob("*.Dockerfile"))
    run(tool("hadolint"), *map(str, files))
    note(
        SECTION,
        "image definitions",
        how="`hadolint`; not built: no container engine here",
        found=f"{len(files)} files, no complaint",
    )


@pytest.mark.parametrize("role", [*ROLES, "client"])
def test_images_are_pinned_and_without_root(role: str) -> None:
    text = (DEPLOY / "images" / f"{role}.Dockerfile").read_text()
    assert re.search(r"^ARG BASE=debian:\d+\.\d+-slim$", text, re.MULTILINE)
    assert re.search(r"^USER 10001:10001$", text, re.MULTILINE)
    assert ("EXPOSE" in text) is (role != "client")


def test_the_compose_file() -> None:
    compose = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())
    services: Mapping[str, Any] = compose["services"]
    topology = (DEPLOY / "compose" / services["master"]["volumes"][0].split(":")[0]).read_bytes()
    sites = read_topology_text(topology).sites
    assert set(services) == {"master", *sites}
    for name, service in services.items():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert (DEPLOY / "compose" / service["build"]["context"] / service["build"]["dockerfile"]).exists()
        assert f"./tls/{name}:/etc/selat/tls:ro" in service["volumes"]
        assert "--insecure" not in service["environment"].get("SELAT_SECURITY_FLAGS", "")
        if name != "master":
            assert service["environment"]["SELAT_SITE"] == f"{name}:{sites[name].slots}"
            assert service["environment"]["SELAT_ADVERTISE"] == f"{name}:7411"
            assert service["networks"] == ["members"]
            assert "ports" not in service
    assert services["master"]["ports"] == ["127.0.0.1:7410:7410"]
    assert compose["networks"]["members"] == {"internal": True}
    note(
        SECTION,
        "compose file",
        how="read, checked against the topology; not run: no container engine here",
        found=f"{len(services)} services, one port published, on loopback",
    )


@unless(None if os.geteuid() == 0 else Lack(Need.ROOT))
def test_the_certificates_of_the_compose_file(tmp_path: Path) -> None:
    """The script makes what the compose file mounts, and a second time nothing."""
    there = tmp_path / "compose"
    there.mkdir()
    shutil.copy(DEPLOY / "compose" / "certificates", there)
    selat = tmp_path / "selat"
    selat.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m selat "$@"\n')
    selat.chmod(0o755)
    run(str(there / "certificates"), env={"SELAT": str(selat)})
    services = yaml.safe_load((DEPLOY / "compose" / "compose.yaml").read_text())["services"]
    for name in services:
        member = read_material(there / "tls" / name).certificate.member
        assert member == (MASTER if name == "master" else site(name))
        assert (there / "tls" / name / KEY).stat().st_uid == 10001
    assert (there / "tls" / "admin" / "admin.token").read_text() == (there / "tls" / "admin.token").read_text()
    before = {path: path.read_bytes() for path in there.rglob("*") if path.is_file()}
    run(str(there / "certificates"), env={"SELAT": str(selat)})
    assert {path: path.read_bytes() for path in there.rglob("*") if path.is_file()} == before


def rendered(*settings: str) -> list[Mapping[str, Any]]:
    """What the chart makes, with these values."""
    script = str(Path(__file__).with_name("chart.py"))
    return [d for d in yaml.safe_load_all(run(tool("python"), script, "template", str(CHART), *settings)) if d]


CHART_LACK = lack_of("kubernetes-validate")


@unless(CHART_LACK)
def test_the_chart_by_the_linter() -> None:
    script = str(Path(__file__).with_name("chart.py"))
    said = ""
    for settings in ((), (INSECURE,), (CERTIFICATES, FIRST_TOKEN)):
        said = run(tool("python"), script, "lint", str(CHART), *settings)
    note(SECTION, "chart", how="`helm lint` (Helm's own library)", found=said.strip().splitlines()[-1])


SITES = ("sites.us.slots=2", "sites.eu.slots=1", "sites.main=null", "topology.gateway=us")
INSECURE = "securityFlags=--insecure"
CERTIFICATES = "certificates.secretPrefix=selat-tls-"
FIRST_TOKEN = "master.adminTokenSecret=selat-admin"


@unless(CHART_LACK)
@pytest.mark.parametrize("security", [(INSECURE,), (CERTIFICATES,), (CERTIFICATES, FIRST_TOKEN)], ids=" ".join)
def test_the_chart_rendered(security: tuple[str, ...], tmp_path: Path) -> None:
    documents = rendered(*SITES, *security)
    kinds = sorted(f"{d['kind']} {d['metadata']['name']}" for d in documents)
    assert kinds == [
        "ConfigMap trial-selat-topology",
        "NetworkPolicy trial-selat-agents",
        "NetworkPolicy trial-selat-master",
        "Service trial-selat-agent-eu",
        "Service trial-selat-agent-us",
        "Service trial-selat-master",
        "ServiceAccount trial-selat",
        "StatefulSet trial-selat-agent-eu",
        "StatefulSet trial-selat-agent-us",
        "StatefulSet trial-selat-master",
    ]
    (file,) = (d["data"]["topology.yaml"] for d in documents if d["kind"] == "ConfigMap")
    topology = read_topology_text(file.encode())
    assert {name: site.slots for name, site in topology.sites.items()} == {"eu": 1, "us": 2}
    assert topology.gateway == "us"
    manifest = tmp_path / "all.yaml"
    manifest.write_text(yaml.safe_dump_all(documents))
    run(tool("kubernetes-validate"), "--strict", str(manifest))
    note(
        SECTION,
        f"chart, rendered for two sites, {' '.join(security)}",
        how="`helm template` (Helm's own library), `kubernetes-validate --strict`",
        found=f"{len(documents)} objects, valid; not installed: no cluster here",
    )


def pods_of(documents: list[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """By the member's name: master, or agent-SITE."""
    sets = [d for d in documents if d["kind"] == "StatefulSet"]
    return {d["metadata"]["name"].removeprefix("trial-selat-"): d["spec"]["template"]["spec"] for d in sets}


def environment_of(pod: Mapping[str, Any]) -> dict[str, Any]:
    return {e["name"]: e.get("value") for e in pod["containers"][0]["env"]}


def secrets_of(pod: Mapping[str, Any]) -> dict[str, Any]:
    """By the directory where it is mounted: the secret's name and its files' mode."""
    volumes = {v["name"]: v["secret"] for v in pod["volumes"] if "secret" in v}
    mounts = [m for m in pod["containers"][0]["volumeMounts"] if m["name"] in volumes]
    assert all(m["readOnly"] is True and "subPath" not in m for m in mounts)
    found = {m["mountPath"]: volumes[m["name"]] for m in mounts}
    return {directory: (secret["secretName"], secret["defaultMode"]) for directory, secret in found.items()}


@unless(CHART_LACK)
def test_members_have_the_certificates_of_their_secrets() -> None:
    pods = pods_of(rendered(*SITES, CERTIFICATES))
    for name, member in {"master": "master", "agent-us": "site-us", "agent-eu": "site-eu"}.items():
        assert secrets_of(pods[name]) == {"/etc/selat/tls": (f"selat-tls-{member}", 0o440)}
        # The files are root's and this group's; members refuse keys that others can read.
        assert pods[name]["securityContext"]["fsGroup"] == pods[name]["securityContext"]["runAsGroup"]
        assert environment_of(pods[name])["SELAT_TLS_DIR"] == "/etc/selat/tls"
    own = "--auth --bootstrap-token-file /var/lib/selat/master/admin.token"
    assert environment_of(pods["master"])["SELAT_SECURITY_FLAGS"].startswith(own)
    assert environment_of(pods["agent-us"])["SELAT_SECURITY_FLAGS"] == ""


@unless(CHART_LACK)
def test_the_first_token_comes_from_a_secret() -> None:
    further = "securityFlags=--python-functions=allow"
    pods = pods_of(rendered(*SITES, CERTIFICATES, FIRST_TOKEN, further))
    assert secrets_of(pods["master"])["/etc/selat/admin"] == ("selat-admin", 0o440)
    flags = environment_of(pods["master"])["SELAT_SECURITY_FLAGS"].split()
    assert flags[:3] == ["--auth", "--bootstrap-token-file", "/etc/selat/admin/admin.token"]
    assert flags[-1] == "--python-functions=allow"
    assert environment_of(pods["agent-us"])["SELAT_SECURITY_FLAGS"] == "--python-functions=allow"
    assert set(secrets_of(pods["agent-us"])) == {"/etc/selat/tls"}


@unless(CHART_LACK)
def test_probes_need_no_certificate() -> None:
    """They ask the entry point inside, not the port."""
    for name, pod in pods_of(rendered(*SITES, CERTIFICATES)).items():
        command = ["/opt/selat/current/selat-member", "ready", name.partition("-")[0]]
        for probe in ("startupProbe", "readinessProbe"):
            assert pod["containers"][0][probe]["exec"]["command"] == command


@unless(CHART_LACK)
@pytest.mark.parametrize("security", [INSECURE, CERTIFICATES])
def test_no_mount_is_in_another(security: str) -> None:
    """A runtime cannot make the place of a mount in a volume that is read-only."""
    for pod in pods_of(rendered(*SITES, security, *([FIRST_TOKEN] if security == CERTIFICATES else []))).values():
        places = [Path(m["mountPath"]) for m in pod["containers"][0]["volumeMounts"]]
        assert not [place for place in places if set(place.parents) & set(places)]


@unless(CHART_LACK)
def test_pods_have_no_rights() -> None:
    pods = pods_of(rendered(*SITES, INSECURE))
    assert len(pods) == 3
    for pod in pods.values():
        assert pod["automountServiceAccountToken"] is False
        assert pod["securityContext"]["runAsNonRoot"] is True
        (container,) = pod["containers"]
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        environment = environment_of(pod)
        assert environment["SELAT_SECURITY_FLAGS"] == "--insecure"
        assert environment["SELAT_DATA"].endswith("/state")
        assert "SELAT_TLS_DIR" not in environment
        assert secrets_of(pod) == {}


@unless(CHART_LACK)
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("sites.US.slots=1", INSECURE), "US"),
        (("sites.main.slots=0", INSECURE), "slots"),
        (("master.enabled=false", INSECURE), "masterAddress"),
        (("images.master.digest=latest", INSECURE), "digest"),
        (("nonsense=1", INSECURE), "nonsense"),
        ((), "certificates.secretPrefix must name the secrets"),
        (("securityFlags=--auth",), "or say securityFlags=--insecure"),
        ((CERTIFICATES, INSECURE), "say only one of them"),
        ((FIRST_TOKEN, INSECURE), "master.adminTokenSecret needs certificates.secretPrefix"),
        (("certificates.secretPrefix=Selat_",), "secretPrefix"),
    ],
)
def test_values_that_make_no_sense_are_refused(settings: tuple[str, ...], said: str) -> None:
    script = str(Path(__file__).with_name("chart.py"))
    assert said in run(tool("python"), script, "template", "--refused", str(CHART), *settings)


@unless(CHART_LACK)
def test_a_release_of_agents_alone() -> None:
    documents = rendered("master.enabled=false", "masterAddress=master.example.com:7410", CERTIFICATES)
    names = [f"{d['kind']} {d['metadata']['name']}" for d in documents]
    assert not [name for name in names if "master" in name or "topology" in name]
    (agent,) = pods_of(documents).values()
    assert environment_of(agent)["SELAT_MASTER"] == "master.example.com:7410"
    assert secrets_of(agent) == {"/etc/selat/tls": ("selat-tls-site-main", 0o440)}
