"""A cluster to be operated: a master and the demo's sites, each in a namespace; certificates and tokens everywhere."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Self

import selat
from planner.values.topology import Topology
from selat.local.topology import NYC, read_topology
from tests.deploy.releases import Release
from tests.deploy.tools import ROOT, run
from tests.e2e.members import START_S, Member
from tests.jvm import AGENT_ARGUMENTS
from tests.wan.lab import Lab, run_selat, topology

MASTER = "master"
SITES = tuple(read_topology(NYC).sites)
MASTER_PORT, AGENT_PORT = 7410, 7411
MBIT_PER_S, LATENCY_MS = 20.0, 20.0
PATIENCE = timedelta(minutes=5)
PAUSE_S = 0.5
PERSONS: Mapping[str, Sequence[str]] = {"admin": (), "olga": ("operator",), "sam": ("submitter", "analysts")}
"""The roles of their tokens; the admin's is there from the first start."""


def places() -> Topology:
    """The namespaces and links: a place for each site, and the master's, which the machine itself reaches."""
    names = (MASTER, *SITES)
    return topology({(a, b): (MBIT_PER_S, LATENCY_MS) for a in names for b in names if a != b})


def eventually(condition: Callable[[], object], what: str, timeout_s: float = START_S) -> None:
    """Ask now and then until it holds."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"not in {timeout_s:g} s: {what}"
        time.sleep(PAUSE_S)


@dataclass(frozen=True, slots=True)
class Answer:
    """A member's answer to a certificate."""

    serial: str
    answer: str


class Operated:
    """The members, stopped with the block, and the commands of those who operate and use them."""

    def __init__(self, within: Lab, root: Path, input_files: Path) -> None:
        self.root = root
        self.members: dict[str, Member] = {}
        self._within = within
        self._input = input_files
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    @property
    def address(self) -> str:
        """The master's, from outside of all namespaces."""
        return f"{self._within.record.layout.uplink_address}:{MASTER_PORT}"

    @property
    def audit_log(self) -> Path:
        return self.root / "audit.log"

    @property
    def authority(self) -> Path:
        return self.root / "authority"

    @property
    def certificates(self) -> Mapping[str, Path]:
        """The directories of all certificates, by role and name."""
        named = ["master/master", *(f"site/{site}" for site in SITES), *(f"client/{person}" for person in PERSONS)]
        return {name: self.root / "tls" / name.replace("/", "-") for name in named}

    def token_file(self, person: str) -> Path:
        return self.root / f"{person}.token"

    def log(self, name: str) -> str:
        """The log of a member so far."""
        return (self.root / "members" / f"{name}.log").read_text()

    def start(self, release: Release) -> None:
        """From nothing to sites that are ALIVE: authority, certificates, members, tokens."""
        for made in ("tls", "members"):
            (self.root / made).mkdir(parents=True)
        self._command("cert", "init", str(self.authority))
        for name, directory in self.certificates.items():
            self._command(
                "cert", "issue", *name.split("/"), "--authority", str(self.authority), "--out", str(directory)
            )
        self._run(MASTER, release)
        with ThreadPoolExecutor() as threads:
            list(threads.map(lambda site: self._run(site, release), SITES))
        for person, roles in PERSONS.items():
            given = [word for role in roles for word in ("--role", role)]
            if given:
                self.selat("admin", "token", "create", person, *given, "--to", str(self.token_file(person)))
        self.await_alive()

    def replace(self, name: str, release: Release) -> float:
        """Stop a member in order, start it as another version; the seconds until all sites are ALIVE."""
        begun = time.monotonic()
        assert self.members[name].stop() == 0, self.log(name)[-3000:]
        self._run(name, release)
        self.await_alive()
        return time.monotonic() - begun

    def await_alive(self) -> None:
        with self.connect("olga") as client:
            eventually(lambda: {s.state for s in client.sites()} == {selat.SiteState.ALIVE}, "all sites ALIVE")

    def connect(self, person: str) -> selat.Client:
        token = self.token_file(person).read_text().strip()
        own = self.certificates[f"client/{person}"]
        return selat.connect(self.address, tls_dir=own, token=token, reconnect=PATIENCE)

    def selat(self, person: str, *words: str, code: int = 0) -> str:
        """The output of the command for somebody; of one that fails, as it is to, both streams."""
        return self._command(*words, *self.shown_by(person), code=code)

    def shown_by(self, person: str) -> list[str]:
        """The options with which the command shows who somebody is."""
        own = self.certificates[f"client/{person}"]
        shown = ["--tls-dir", str(own), "--token-file", str(self.token_file(person))]
        return ["--master", self.address, *shown]

    def versions(self) -> dict[str, str]:
        """The version of each member, as the members themselves say."""
        with self.connect("olga") as client:
            found = client.members()
        assert all(s.member is not None for s in found.sites), found.sites
        return {MASTER: found.master.version, **{s.site: s.member.version for s in found.sites if s.member}}

    def knock(self, certificate: Path) -> Mapping[str, Answer]:
        """The answers of all members, by role and name, to whoever comes with the certificate."""
        layout = self._within.record.layout
        targets = [f"site/{site}={layout.address(site)}:{AGENT_PORT}" for site in SITES]
        targets.append(f"master/master={layout.address(MASTER)}:{MASTER_PORT}")
        python = self._within.inside(MASTER, sys.executable, "-m", "tests.deploy.knock")
        said = run(*python, str(certificate), str(self.authority), *targets, cwd=ROOT)
        answers: dict[str, Any] = json.loads(said.splitlines()[-1])
        return {name: Answer(**answer) for name, answer in answers.items()}

    def keep_certificates(self) -> Mapping[str, Path]:
        """Copies of all certificates as they are now."""
        kept = self.root / "before"
        shutil.copytree(self.root / "tls", kept)
        return {name: kept / directory.name for name, directory in self.certificates.items()}

    def renew(self) -> None:
        """New certificates for all members and persons, in their directories."""
        self._command("cert", "renew", *map(str, self.certificates.values()), "--authority", str(self.authority))

    def revoke(self, serial: str) -> None:
        """Revoke a certificate, and tell everybody."""
        told = [word for directory in self.certificates.values() for word in ("--copy-to", str(directory))]
        self._command("cert", "revoke", "--serial", serial, "--authority", str(self.authority), *told)

    def _run(self, name: str, release: Release) -> None:
        words = self._master_words() if name == MASTER else self._agent_words(name)
        self.members[name] = self._stack.enter_context(
            Member(
                self.root / "members" / name,
                words,
                environment=release.environment,
                code=release.directory,
                entrance=self._within.inside(name),
            )
        )

    def _master_words(self) -> list[str]:
        tokens = ["--auth", "--bootstrap-token-file", str(self.token_file("admin"))]
        place = ["--listen", f"0.0.0.0:{MASTER_PORT}", "--topology", str(NYC), "--data", str(self.root / "master")]
        own = ["--tls-dir", str(self.certificates["master/master"]), "--audit-log", str(self.audit_log)]
        return ["master", *place, *own, *tokens, "--no-probes"]

    def _agent_words(self, site: str) -> list[str]:
        layout = self._within.record.layout
        listen = f"{layout.address(site)}:{AGENT_PORT}"
        place = ["--site", f"{site}:1", "--master", f"{layout.address(MASTER)}:{MASTER_PORT}", "--listen", listen]
        own = ["--tls-dir", str(self.certificates[f"site/{site}"]), "--data", str(self.root / "sites")]
        return ["site_agent", *place, *own, "--allow-path", str(self._input), *AGENT_ARGUMENTS]

    def _command(self, *words: str, code: int = 0) -> str:
        done = run_selat(*words, state=self.root / "state")
        assert done.returncode == code, f"selat {' '.join(words)}: exit code {done.returncode}\n{done.stderr}"
        return done.stdout + done.stderr if code else done.stdout
