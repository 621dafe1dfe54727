"""The Terraform module: by Terraform's own checks, and for real against an emulated cloud."""

from __future__ import annotations

import ipaddress
import json
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from selat.dev.terraform import topology_of_outputs
from selat.local.topology import topology_of_text
from tests.deploy.facts import note
from tests.deploy.terraform import VARIABLES, Terraform, working_copy
from tests.deploy.tools import ROOT, emulated_cloud, lack_of, providers, run, tool
from tests.needs import Lack, Need, unless

SECTION = "terraform"
REGIONS = tuple(VARIABLES["regions"])
MASTER = "10.64.0.10"
AGENTS = {"us-east-1": "10.64.1.10", "eu-central-1": "10.65.1.10", "ap-northeast-1": "10.69.1.10"}
ELSEWHERE = "sa-east-1"


def lack() -> Lack | None:
    if providers() is None:
        return Lack(Need.MACHINE, "the AWS provider of Terraform")
    return lack_of("terraform", "moto_server")


pytestmark = [pytest.mark.timeout(900), unless(lack())]


def test_the_files_are_formatted_and_valid(tmp_path: Path) -> None:
    run("terraform", "fmt", "-check", "-recursive", str(ROOT / "terraform"))
    terraform = working_copy(tmp_path / "terraform")
    assert json.loads(terraform("validate", "-json"))["valid"]
    version = json.loads(terraform("version", "-json"))
    provider = next(iter(version["provider_selections"].values()))
    note(
        SECTION,
        "files",
        how="`terraform fmt -check`, `terraform validate`",
        found=f"formatted, valid; Terraform {version['terraform_version']}, AWS provider {provider}",
    )


def test_its_own_tests(tmp_path: Path) -> None:
    terraform = working_copy(tmp_path / "terraform")
    said = terraform("test", "-no-color")
    passed = re.search(r"Success! (\d+) passed, 0 failed", said)
    assert passed, said
    note(SECTION, "rules", how="`terraform test` with mocked providers", found=f"{passed[1]} runs passed, none failed")


@dataclass(frozen=True, slots=True)
class Deployment:
    terraform: Terraform
    url: str

    def state(self) -> Any:
        """What the cloud's API says, of the three regions and of one that is not ours."""
        script = str(Path(__file__).with_name("cloud_state.py"))
        return json.loads(run(tool("python"), script, self.url, *REGIONS, ELSEWHERE))


@pytest.fixture(scope="module")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Three regions in an emulated cloud."""
    scratch = tmp_path_factory.mktemp("cloud")
    with emulated_cloud(scratch / "cloud.log") as url:
        terraform = working_copy(scratch / "terraform", url)
        begun = time.monotonic()
        terraform("plan", "-input=false", "-no-color", "-out=plan")
        said = terraform("apply", "-input=false", "-no-color", "plan")
        made = re.search(r"Resources: (\d+) added", said)
        assert made, said
        took = time.monotonic() - begun
        note(
            SECTION,
            "three regions",
            how="`terraform plan`, `terraform apply` against the emulator",
            found=f"{made[1]} resources in {took:.0f} s",
        )
        yield Deployment(terraform, url)


@pytest.fixture(scope="module")
def state(deployment: Deployment) -> Any:
    return deployment.state()


def test_machines(state: Any) -> None:
    regions = state["regions"]
    assert {region: sorted(i["address"] for i in regions[region]["instances"]) for region in REGIONS} == {
        region: sorted([address, *([MASTER] if region == "us-east-1" else [])]) for region, address in AGENTS.items()
    }
    machines = [i for region in REGIONS for i in regions[region]["instances"]]
    assert {i["state"] for i in machines} == {"running"}
    assert {i["tokens"] for i in machines} == {"required"}
    assert {(i["key"], i["profile"]) for i in machines} == {("", False)}
    assert all(i["tags"].items() >= {"deployment": "trial", "owner": "analytics"}.items() for i in machines)
    assert {i["type"] for i in machines} == {"t3.small", "m7i.xlarge", "m7i.large"}
    assert regions[ELSEWHERE]["instances"] == []
    assert regions[ELSEWHERE]["vpcs"] == {}
    note(
        SECTION,
        "machines",
        how="the API: instances",
        found=f"{len(machines)} run: an agent in each region, the master in one, none in a fourth; "
        "IMDSv2 required, no key, no role, tagged",
    )


def test_disks(state: Any) -> None:
    disks = [v for region in REGIONS for v in state["regions"][region]["volumes"] if v["tags"].get("Name")]
    states = [v for v in disks if v["tags"]["Name"].endswith(" state")]
    assert len(states) == 4
    assert all(v["encrypted"] and v["attached"] for v in states)
    note(SECTION, "disks of the state", how="the API: volumes", found=f"{len(states)}, encrypted, attached")


def test_start_up_scripts(state: Any) -> None:
    machines = {i["address"]: i["user_data"] for region in REGIONS for i in state["regions"][region]["instances"]}
    for region, address in AGENTS.items():
        asked = VARIABLES["regions"][region]
        assert f'SELAT_SITE="{asked["site"]}:{asked["slots"]}"' in machines[address]
        assert f'SELAT_MASTER="{MASTER}:7410"' in machines[address]
        assert f'SELAT_LISTEN="{address}:7411"' in machines[address]
        assert re.search(rf"\.s3(\.{region})?\.amazonaws\.com/bundle-", machines[address])
    assert '"gateway": "us"' in machines[MASTER]
    for text in machines.values():
        run("sh", "-n", "-c", text)
        assert len(text) < 16_000
    longest = max(map(len, machines.values()))
    note(SECTION, "start-up scripts", how="the API: user data; `sh -n`", found=f"as planned; {longest} bytes at most")


def test_addresses_do_not_overlap(state: Any) -> None:
    networks = [ipaddress.ip_network(c) for region in REGIONS for c in state["regions"][region]["vpcs"].values()]
    assert len(networks) == 3
    assert not any(a.overlaps(b) for i, a in enumerate(networks) for b in networks[i + 1 :])
    assert not any(s["public"] for region in REGIONS for s in state["regions"][region]["subnets"])
    shown = ", ".join(map(str, networks))
    note(
        SECTION,
        "networks",
        how="the API: networks, subnets",
        found=f"{shown}: none overlaps; no public addresses by default",
    )


def test_links(state: Any) -> None:
    regions = state["regions"]
    for region in REGIONS:
        assert [p["status"] for p in regions[region]["peerings"]] == ["active", "active"]
        others = {c for other in REGIONS if other != region for c in regions[other]["vpcs"].values()}
        assert {cidr for cidr, kind in regions[region]["routes"] if kind == "peering"} == others
    assert regions[ELSEWHERE]["peerings"] == []
    note(
        SECTION,
        "links",
        how="the API: peering connections, routes",
        found="each pair is active on both sides, with routes both ways",
    )


def test_the_way_to_clients(state: Any, deployment: Deployment) -> None:
    regions = state["regions"]
    ways = {r: [cidr for cidr, kind in regions[r]["routes"] if kind == "gateway" and "." in cidr] for r in REGIONS}
    assert ways == {"us-east-1": ["203.0.113.0/24"], "eu-central-1": [], "ap-northeast-1": []}
    assert [len(regions[r]["addresses"]) for r in REGIONS] == [1, 0, 0]
    outputs = json.loads(deployment.terraform.outputs())
    assert outputs["client_address"]["value"] == f"{regions['us-east-1']['addresses'][0]}:7410"
    note(
        SECTION,
        "ways out",
        how="the API: routes, addresses",
        found="the master's subnet to 203.0.113.0/24; nothing else leaves",
    )


def test_firewalls(state: Any) -> None:
    """No rule has a range that is wider than one member, the clients, or the list of addresses with the bundle."""
    allowed = {f"{a}/32" for a in (MASTER, *AGENTS.values())}
    rules = 0
    for region in REGIONS:
        for name, group in state["regions"][region]["groups"].items():
            if name == "default":
                assert group == {"in": [], "out": []}
                continue
            clients = {"203.0.113.0/24"} if name.endswith("master") else set()
            assert {r[3] for r in group["in"]} <= allowed | clients, name
            assert {r[3] for r in group["out"] if not r[3].startswith("pl-")} <= allowed, name
            assert {tuple(r[:3]) for r in group["out"] if r[3].startswith("pl-")} == {("tcp", 443, 443)}, name
            rules += len(group["in"]) + len(group["out"])
    master = state["regions"]["us-east-1"]["groups"]["trial master"]
    assert {tuple(r[:3]) for r in master["in"]} == {("tcp", 7410, 7410)}
    note(
        SECTION,
        "firewalls",
        how="the API: rules",
        found=f"{rules} rules, each for one member's address, the clients' range at port 7410, or the bundle",
    )


SECRET = re.compile(r"(tls/[0-9a-f]{64})/(ca\.pem|revoked\.pem|member\.pem|member\.key|admin\.token)")


def test_buckets(state: Any) -> None:
    assert len(state["buckets"]) == 3
    for bucket in state["buckets"]:
        assert bucket["closed"]
        hidden = [found for name in bucket["objects"] if (found := SECRET.fullmatch(name))]
        assert len(bucket["objects"]) == 1 + len(hidden)
        assert len(hidden) == (9 if "us-east-1" in bucket["name"] else 4)
        (allows,) = bucket["policy"]["Statement"]
        assert allows["Action"] == "s3:GetObject"
        assert set(allows["Condition"]["StringEquals"]) == {"aws:SourceVpce"}
        assert allows["Condition"]["Bool"] == {"aws:SecureTransport": "true"}
    note(
        SECTION,
        "buckets",
        how="the API: policies",
        found="3, closed to the public, read by their network's endpoint alone",
    )


def test_certificates(state: Any, deployment: Deployment) -> None:
    """Each machine is told where its own files are, and no key or token is in a start-up script or in the state."""
    machines = {i["address"]: i["user_data"] for region in REGIONS for i in state["regions"][region]["instances"]}
    told = {address: set(re.findall(r"tls/[0-9a-f]{64}", text)) for address, text in machines.items()}
    assert {len(paths) for paths in told.values()} == {1}
    assert len(set.union(*told.values())) == 4
    there = {found[1] for b in state["buckets"] for name in b["objects"] if (found := SECRET.fullmatch(name))}
    assert there == set.union(*told.values())
    assert "admin.token" in machines[MASTER]
    assert not any("admin.token" in text for address, text in machines.items() if address != MASTER)
    kept = (deployment.terraform.directory / "terraform.tfstate").read_text()
    for text in (*machines.values(), kept):
        assert "key-of-" not in text
        assert "no token" not in text
    note(
        SECTION,
        "certificates",
        how="the API: objects, user data; the state of Terraform",
        found="four files for each member under a name that only its own machine is told, and the first token for the "
        "master; no key and no token in a start-up script or in the state",
    )


def test_the_topology(deployment: Deployment) -> None:
    text = topology_of_outputs(deployment.terraform.outputs().encode())
    topology = topology_of_text(text.encode(), Path("it"))
    assert {name: site.slots for name, site in topology.sites.items()} == {"us": 4, "eu": 2, "asia": 2}
    assert topology.link("eu", "us") is not None
    note(SECTION, "topology", how="`selat topology from-terraform`", found=" ".join(text.splitlines()[1:6]))


def test_nothing_is_left_to_do_and_then_nothing_is_left(deployment: Deployment) -> None:
    deployment.terraform("plan", "-input=false", "-no-color", "-detailed-exitcode")
    note(SECTION, "a second plan", how="`terraform plan -detailed-exitcode`", found="no changes")
    begun = time.monotonic()
    said = deployment.terraform("destroy", "-auto-approve", "-input=false", "-no-color")
    gone = re.search(r"Resources: (\d+) destroyed", said)
    assert gone, said
    state = deployment.state()
    for region in REGIONS:
        left = state["regions"][region]
        assert (left["instances"], left["vpcs"], left["volumes"], left["addresses"]) == ([], {}, [], [])
    assert state["buckets"] == []
    note(
        SECTION,
        "the end",
        how="`terraform destroy`; the API",
        found=f"{gone[1]} resources in {time.monotonic() - begun:.0f} s; no machine, network, disk or bucket left",
    )
