"""Run the tests of deploying, and write what they found: `python -m tests.deploy --record docs/results/deploy.md`.

With names of sections only these are run, and replaced. Exit code: 1 when a test failed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

from evidence.page import HEAD, Section, origins, put, read_page, write_page
from evidence.provenance import code_at_start, facts
from tests.deploy.facts import VARIABLE, noted, table

COMMAND = "make deploy-test"
INTRODUCTION = f"""\
# Deployment

`{COMMAND}` writes this page from what `tests/deploy` found; a line is there only if the assertions around it held.
The cloud is an emulator's (moto): it checks and keeps what Terraform asks for, and starts no machine. So what machines
do is tried apart from it: the start-up scripts that the Terraform module makes run in clean roots with processes and
network of their own, behind packet filters made from the module's rules. There is no systemd, no container engine and
no Kubernetes in these trials. The trial of operating has processes of this machine in namespaces of their own, with two
installations of Selat beside each other, certificates and tokens, and nothing that is `--insecure`.

`python -m tests.deploy --record docs/results/deploy.md SECTION` runs one section again."""


@dataclass(frozen=True, slots=True)
class Part:
    """The tests of one section of the page."""

    title: str
    module: str


PARTS = {
    "terraform": Part("Terraform", "test_terraform.py"),
    "machines": Part("Start-up script, entry point and ports", "test_start_up.py"),
    "operations": Part("Upgrade, renewal and drain under queries", "test_operations.py"),
    "files": Part("Units, images, compose file and chart", "test_files.py"),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="SECTION", help=f"of {', '.join(PARTS)}; none: all")
    parser.add_argument("--record", type=Path, metavar="FILE", help="replace the sections of FILE")
    arguments = parser.parse_args()
    if unknown := sorted(set(arguments.names) - PARTS.keys()):
        parser.error(f"there is no section {unknown[0]}: there are {', '.join(PARTS)}")
    code_at_start()
    failed = False
    for name in arguments.names or PARTS:
        section, code = run_part(name)
        failed = failed or code != 0
        if arguments.record:
            record(arguments.record, section)
    return 1 if failed else 0


def run_part(name: str) -> tuple[Section, int]:
    """Run the tests of a section. Returns the section and pytest's exit code."""
    part = PARTS[name]
    with tempfile.TemporaryDirectory() as scratch:
        found, results = Path(scratch) / "facts", Path(scratch) / "results.xml"
        command = [sys.executable, "-m", "pytest", f"tests/deploy/{part.module}", "-q", f"--junit-xml={results}"]
        done = subprocess.run(command, env={**os.environ, VARIABLE: str(found)}, check=False)
        body = [f"## {part.title}", outcome(results), table(noted(found)), ran()]
    return Section(name, str(code_at_start()), "\n\n".join(body)), done.returncode


def ran() -> str:
    return facts(code_at_start(), COMMAND, {"PySpark": "pyspark"})


def outcome(results: Path) -> str:
    """A sentence on a run of pytest, with the reasons of what was skipped."""
    suite = next(ElementTree.parse(results).getroot().iter("testsuite"))
    tests, skipped = int(suite.get("tests", 0)), int(suite.get("skipped", 0))
    failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
    said = f"**{tests - skipped - failed} tests passed, {failed} failed, {skipped} were skipped.**"
    reasons = sorted({node.get("message", "") for node in suite.iter("skipped")})
    return "\n".join([said, *(f"- skipped: {reason}" for reason in reasons)])


def record(page: Path, section: Section) -> None:
    """Replace the page's section, and its head."""
    sections = put([old for old in read_page(page) if old.name in PARTS], section)
    ordered: Sequence[Section] = sorted(sections, key=lambda s: list(PARTS).index(s.name))
    head = Section(HEAD, section.commit, f"{INTRODUCTION}\n\n{origins(ordered)}")
    write_page(page, [head, *ordered])


if __name__ == "__main__":
    sys.exit(main())
