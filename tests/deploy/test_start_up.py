"""The start-up script, in clean roots: it installs, starts, and agents register; and who reaches which port."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import Certificates
from tests.deploy.facts import note
from tests.deploy.machines import BASE, Machine, Network, firewall, inside, listening, reached
from tests.deploy.tools import ROOT, lack_of, run
from tests.needs import Lack, Need, unless
from wire.files import MEMBER

SECTION = "machines"
BUNDLE = ROOT / "dist" / "selat-bundle.tar.gz"
MASTER = "10.64.0.10"
ADDRESSES = {"master": MASTER, "us": "10.64.1.10", "eu": "10.65.1.10"}
CLIENT, STRANGER = "203.0.113.7", "198.51.100.7"
ALWAYS_TRIED = (22, 80, 443, 7410, 7411)
ROWS = 1000

_PLAN = """
module "layout" {
  source         = "./modules/layout"
  regions        = {
    us = { place = 0, slots = 1, site = "us" }
    eu = { place = 1, slots = 1, site = "eu" }
  }
  master_region  = "us"
  gateway_region = "us"
  address_block  = "10.64.0.0/12"
  client_cidrs   = ["203.0.113.0/24"]
  links          = []
  default_link   = { bandwidth = "500Mbit/s", latency = "50ms" }
  certificates   = true
  security_flags = ""
  master_flags   = []
  agent_flags    = []
  allow_paths    = ["/srv/selat"]
}

module "master" {
  source   = "./modules/member"
  role     = "master"
  settings = merge(module.layout.master_settings, {
    SELAT_TLS_URL         = "@URL@/tls/master"
    SELAT_ADMIN_TOKEN_URL = "@URL@/admin.token"
  })
  topology = yamlencode(module.layout.topology)
  bundle   = { url = "@URL@/@BUNDLE@", sha256 = "@SHA@" }
}

module "agent" {
  source   = "./modules/member"
  for_each = module.layout.agent_settings
  role     = "agent"
  settings = merge(each.value, { SELAT_TLS_URL = "@URL@/tls/site-${split(":", each.value["SELAT_SITE"])[0]}" })
  bundle   = { url = "@URL@/@BUNDLE@", sha256 = "@SHA@" }
}

output "scripts" {
  value = merge({ master = module.master.start_up }, { for region, made in module.agent : region => made.start_up })
}

output "rules" {
  value = merge({ master = module.layout.master_rules }, module.layout.agent_rules)
}
"""


def lack() -> Lack | None:
    if os.geteuid() != 0:
        return Lack(Need.ROOT)
    if not BASE.is_dir():
        return Lack(Need.MACHINE, "a clean root: scripts/setup_deploy could not make one")
    return lack_of("terraform", "iptables", "ss", "unshare", "nsenter")


pytestmark = [pytest.mark.timeout(900), unless(lack())]


@dataclass(frozen=True, slots=True)
class Region:
    machines: dict[str, Machine]
    outside: dict[str, str]
    """Namespaces of clients and strangers."""
    certificates: Certificates
    """Where the machines fetch them."""
    token: Path
    took_s: dict[str, float]

    def selat(self, *words: str, check: bool = True) -> str:
        """What the command `selat` prints where clients are."""
        own = ("--tls-dir", str(self.certificates.root / "client-ann"), "--token-file", str(self.token))
        return self.stranger(*own, *words, check=check)

    def stranger(self, *words: str, check: bool = False) -> str:
        """The same without a certificate and a token."""
        command = [sys.executable, "-m", "selat", "--master", f"{MASTER}:7410", *words]
        return run(*inside(self.outside["client"], *command), cwd=ROOT, check=check)

    def await_alive(self) -> None:
        deadline = time.monotonic() + 240
        while True:
            said = self.selat("site", "list", "-o", "json", check=False)
            if re.findall(r'"state": ?"(\w+)"', said) == ["alive", "alive"]:
                return
            logs = "".join(m("sh", "-c", "tail -n 30 /run/*.log", check=False) for m in self.machines.values())
            assert time.monotonic() < deadline, f"{said}\n{logs}"
            time.sleep(0.5)


def planned(scratch: Path, url: str, sha256: str) -> Any:
    """Start-up scripts and rules, as the module plans them."""
    shutil.copytree(ROOT / "terraform" / "modules", scratch / "modules")
    plan = _PLAN.replace("@URL@", url).replace("@BUNDLE@", BUNDLE.name).replace("@SHA@", sha256)
    (scratch / "main.tf").write_text(plan)
    (scratch / "cli.tfrc").touch()
    alone = {"TF_CLI_CONFIG_FILE": str(scratch / "cli.tfrc"), "CHECKPOINT_DISABLE": "1"}
    run("terraform", "init", "-input=false", "-no-color", cwd=scratch, env=alone)
    run("terraform", "apply", "-auto-approve", "-input=false", "-no-color", cwd=scratch, env=alone)
    outputs = json.loads(run("terraform", "output", "-json", cwd=scratch, env=alone))
    return {name: output["value"] for name, output in outputs.items()}


@pytest.fixture(scope="module")
def region(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Region]:
    scratch = tmp_path_factory.mktemp("machines")
    sha256 = hashlib.sha256(BUNDLE.read_bytes()).hexdigest()
    served = scratch / "served"
    certificates = Certificates.create(served / "tls")
    for role, name in (("master", "master"), ("site", "us"), ("site", "eu"), ("client", "ann")):
        certificates.issue(role, name)
    (served / "tls" / "master-master").rename(served / "tls" / "master")
    shutil.copy(BUNDLE, served)
    token = served / "admin.token"
    run(sys.executable, "-m", "selat", "token", "new", "--to", str(token), cwd=ROOT)
    with ExitStack() as stack:
        network = stack.enter_context(Network())
        plan = planned(scratch / "plan", network.serve(served), sha256)
        spaces = {name: network.end(name, address) for name, address in ADDRESSES.items()}
        for name, space in spaces.items():
            firewall(space, plan["rules"][name])
        outside = {"client": network.end("client", CLIENT), "stranger": network.end("stranger", STRANGER)}
        begun = time.monotonic()
        machines = {
            name: stack.enter_context(Machine(name, space, scratch / name, plan["scripts"][name]))
            for name, space in spaces.items()
        }
        for machine in machines.values():
            machine.await_start()
        started = time.monotonic() - begun
        made = Region(machines, outside, certificates, token, {})
        made.await_alive()
        made.took_s.update(started=started, alive=time.monotonic() - begun)
        yield made


def test_agents_register(region: Region) -> None:
    note(
        SECTION,
        "three machines, from nothing to two sites ALIVE",
        how="start-up scripts in clean roots (Debian 12, Python, no Java, no Selat), which fetch the bundle and each "
        "member's certificate; `selat site list` with a client's certificate and the first token",
        found=f"scripts ended after {region.took_s['started']:.0f} s, "
        f"sites were ALIVE after {region.took_s['alive']:.0f} s",
    )


def test_nobody_comes_in_without_certificate_and_token(region: Region) -> None:
    own = ("--tls-dir", str(region.certificates.root / "client-ann"))
    without_any = region.stranger("site", "list")
    without_token = region.stranger(*own, "site", "list")
    assert "alive" not in without_any
    assert "UNAUTHENTICATED" in without_token
    for name, machine in region.machines.items():
        role = "master" if name == "master" else "agent"
        assert "--insecure" not in machine("sh", "-c", f"cat /etc/selat/{role}.env")
        assert machine("stat", "-c", "%a %U", "/etc/selat/tls").split() == ["700", "selat"]
    note(
        SECTION,
        "clients without a certificate, or without a token",
        how="`selat site list` as a client",
        found="refused",
    )


def test_a_renewed_certificate_is_fetched_and_used_without_a_restart(region: Region) -> None:
    machine = region.machines["eu"]
    before = ready_pid(machine)
    region.certificates.issue("site", "eu")
    unit = (ROOT / "deploy" / "systemd" / "selat-certificates.service").read_text()
    (program,) = re.findall(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    user = "setpriv --reuid selat --regid selat --clear-groups --no-new-privs"
    machine("sh", "-c", f". /etc/selat/member.env; {user} {program}")
    own = (region.certificates.root / "site-eu" / MEMBER).read_text()
    assert machine("cat", "/etc/selat/tls/member.pem") == own
    deadline = time.monotonic() + 120
    while "certificate taken over" not in machine("cat", "/run/selat-agent.log"):
        region.selat("doctor", check=False)
        assert time.monotonic() < deadline
    assert ready_pid(machine) == before
    region.await_alive()
    note(
        SECTION,
        "a renewed certificate",
        how="what selat-certificates.service runs, as its user, on eu",
        found="fetched, taken over by the same process",
    )


def test_a_query_has_a_result(region: Region) -> None:
    for number, site in enumerate(("us", "eu")):
        program = f"print('n', *range({number}, {ROWS * 2}, 2), sep=chr(10))"
        file = "/srv/selat/numbers.csv"
        region.machines[site]("sh", "-c", f'python3 -c "{program}" > {file}; chmod 644 {file}')
    at = " ".join(f"AT {site} WITH ('path' = '/srv/selat/numbers.csv')" for site in ("us", "eu"))
    declared = f"CREATE TABLE numbers (n BIGINT) WITH ('connector' = 'files', 'format' = 'csv') {at}"
    region.selat("sql", declared)
    said = region.selat("sql", "-o", "json", "SELECT count(*) AS amount, sum(n) AS total FROM numbers")
    (answer,) = (json.loads(line) for line in said.splitlines() if line.startswith('{"amount"'))
    assert answer == {"amount": 2 * ROWS, "total": sum(range(2 * ROWS))}
    note(
        SECTION,
        "a query over a table at both sites",
        how="`selat sql` as a client",
        found=f"{answer['amount']} rows, sum {answer['total']}: right",
    )


@pytest.mark.parametrize("name", ADDRESSES)
def test_members_have_no_rights(region: Region, name: str) -> None:
    machine = region.machines[name]
    role = "master" if name == "master" else "agent"
    ready = json.loads(machine("cat", f"/run/selat-{role}/ready.json"))
    status = machine("cat", f"/proc/{ready['pid']}/status")
    values = dict(re.findall(r"^(\w+):\s+(.*)$", status, re.MULTILINE))
    assert values["Uid"].split()[0] != "0"
    assert values["NoNewPrivs"] == "1"
    assert {int(values[caps], 16) for caps in ("CapEff", "CapPrm", "CapBnd", "CapAmb")} == {0}
    mounts = machine("cat", f"/proc/{ready['pid']}/mounts")
    assert re.search(r"^\S+ / \S+ ro,", mounts, re.MULTILINE)
    assert machine("stat", "-c", "%a %U", f"/etc/selat/{role}.env").split() == ["640", "root"]
    assert machine("stat", "-c", "%a %U", f"/var/lib/selat/{role}").split() == ["700", "selat"]
    machine("/opt/selat/current/selat-member", "ready", role)
    note(
        SECTION,
        f"rights of the member on {name}",
        how="/proc, as the unit's settings were applied without systemd",
        found=f"user {values['Uid'].split()[0]}, no capabilities, no new privileges, root file system read-only",
    )


def test_every_port_from_everywhere(region: Region) -> None:
    spaces = {name: machine.space for name, machine in region.machines.items()} | region.outside
    expected = {("client", "master", 7410), ("us", "master", 7410), ("eu", "master", 7410)}
    expected |= {(a, b, 7411) for a in ADDRESSES for b in ("us", "eu") if a != b}
    found: set[tuple[str, str, int]] = set()
    for target, address in ADDRESSES.items():
        ports = listening(spaces[target])
        tried = sorted({*ALWAYS_TRIED, *ports})
        for origin, space in spaces.items():
            if origin != target:
                answers = reached(space, [(address, port) for port in tried])
                found |= {(origin, target, port) for port, answer in zip(tried, answers, strict=True) if answer}
        shown = ", ".join(f"{port} ({'/'.join(sorted(at))})" for port, at in sorted(ports.items()))
        note(SECTION, f"ports of {target} at which something listens", how="`ss -ltn`", found=shown)
        note(
            SECTION,
            f"who reaches a port of {target}",
            how=f"TCP from {', '.join(o for o in spaces if o != target)} to these and 22, 80, 443, 7410, 7411",
            found="; ".join(f"{o} {p}" for o, t, p in sorted(found) if t == target) + "; nobody any other",
        )
    assert found == expected


def ready_pid(machine: Machine) -> int | None:
    """Of the agent, once it serves."""
    said = machine("sh", "-c", "cat /run/selat-agent/ready.json 2>/dev/null || echo {}")
    return json.loads(said).get("pid") if said.endswith("}\n") or said.endswith("}") else None


def test_it_can_be_run_again(region: Region) -> None:
    machine = region.machines["eu"]
    before = ready_pid(machine)
    said = machine("/root/start-up")
    assert "selat-agent.service is started" in said
    deadline = time.monotonic() + 300
    while ready_pid(machine) in (None, before):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    region.await_alive()
    note(
        SECTION,
        "the start-up script a second time",
        how="in the running machine eu",
        found="nothing is fetched again, the agent is restarted, its site ALIVE",
    )


def test_another_bundle_is_refused(region: Region) -> None:
    machine = region.machines["us"]
    sha256 = hashlib.sha256(BUNDLE.read_bytes()).hexdigest()
    other = f"sed s/{sha256[:16]}/{'0' * 16}/g /root/start-up > /tmp/other"
    said = machine("sh", "-c", f"{other}; sh /tmp/other; echo code $?")
    assert "the bundle is not the one that was planned" in said
    assert said.rstrip().endswith("code 1")
    assert machine("sh", "-c", "ls /opt/selat").split() == ["current", "releases"]
    note(
        SECTION,
        "a bundle with another digest",
        how="the same script with another SHA-256",
        found="refused, nothing is kept of it",
    )


def test_the_entry_point_says_what_is_missing(region: Region) -> None:
    member = "/opt/selat/current/selat-member"
    assert "usage" in region.machines["us"](member, "client", check=False)
    assert "SELAT_SITE: must be NAME:SLOTS" in region.machines["us"](member, "agent", check=False)
    assert (
        subprocess.run([str(ROOT / "deploy" / "member" / "selat-member"), "ready", "master"], check=False).returncode
        == 1
    )
