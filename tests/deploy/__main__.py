"""Run all tests of deploying, and write what they found: `python -m tests.deploy --record docs/results/deploy.md`.

Exit code: pytest's.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from evidence.page import HEAD, Section, origins, write_page
from evidence.provenance import code_at_start, facts
from tests.deploy.facts import VARIABLE, Fact, noted, table

COMMAND = "make deploy-test"
TITLES = {
    "terraform": "Terraform",
    "machines": "Start-up script, entry point and ports",
    "files": "Units, images, compose file and chart",
}
INTRODUCTION = f"""\
# Deployment

`{COMMAND}` writes this page from what `tests/deploy` found; a line is there only if the assertions around it held.
The cloud is an emulator's (moto): it checks and keeps what Terraform asks for, and starts no machine. So what machines
do is tried apart from it: the start-up scripts that the Terraform module makes run in clean roots with processes and
network of their own, behind packet filters made from the module's rules. There is no systemd, no container engine and
no Kubernetes in these trials."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", type=Path, metavar="FILE", help="replace the sections of FILE")
    record: Path | None = parser.parse_args().record
    code_at_start()
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "facts"
        command = [sys.executable, "-m", "pytest", "tests/deploy", "-q", f"--junit-xml={scratch}/results.xml"]
        done = subprocess.run(command, env={**os.environ, VARIABLE: str(file)}, check=False)
        if record:
            write(record, noted(file), outcome(Path(scratch) / "results.xml", done.returncode))
    return done.returncode


def outcome(results: Path, code: int) -> str:
    """A sentence on the run of pytest."""
    suite = next(ElementTree.parse(results).getroot().iter("testsuite"))
    tests, skipped = int(suite.get("tests", 0)), int(suite.get("skipped", 0))
    failed = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
    said = f"{tests - skipped - failed} tests passed, {failed} failed, {skipped} were skipped"
    reasons = sorted({node.get("message", "") for node in suite.iter("skipped")})
    return f"**{said}** (exit code {code})." + "".join(f"\n- skipped: {reason}" for reason in reasons)


def write(page: Path, found: Sequence[Fact], said: str) -> None:
    """Replace the page's sections, all of them."""
    code = code_at_start()
    sections: list[Section] = []
    for name, title in TITLES.items():
        rows = [fact for fact in found if fact.section == name]
        text = f"## {title}\n\n{table(rows)}" if rows else f"## {title}\n\nNothing was found out."
        sections.append(Section(name, str(code), text))
    ran = facts(code, COMMAND, {"PySpark": "pyspark"})
    head = "\n\n".join([INTRODUCTION, said, ran, origins(sections)])
    write_page(page, [Section(HEAD, str(code), head), *sections])


if __name__ == "__main__":
    sys.exit(main())
