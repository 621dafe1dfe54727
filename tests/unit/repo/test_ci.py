"""The judgement of `.ci/run`, and the set-up of the machine for the tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.needs import Lack, Need
from tests.tally import Run, faults, load, main, summary

ROOT = Path(__file__).parents[3]
NO_IPERF3 = str(Lack(Need.PACKAGES, "iperf3"))
NO_NETEM = str(Lack(Need.MACHINE, "netem: qdisc kind is unknown"))
INSTALL = "for program in ip ping iperf3 ethtool linux.uml busybox promtool; do /bin/cp id $program; done"
UNIT = Run("tests/unit", 0, {"passed": 3})
WAN = Run("tests/wan", 0, {"passed": 2, "skipped": 3}, {NO_IPERF3: 1, NO_NETEM: 2})


def test_reasons_are_counted_over_all_runs() -> None:
    assert summary([UNIT, WAN, Run("tests/e2e", 1, {"failed": 1, "skipped": 1}, {NO_NETEM: 1})]) == [
        "tests skipped: 4",
        f"     3  {NO_NETEM}",
        f"     1  {NO_IPERF3}",
        "3 runs of pytest: 1 failed, 5 passed, 4 skipped",
    ]


@pytest.mark.parametrize(
    ("run", "is_root", "found"),
    [
        (UNIT, True, []),
        (WAN, True, [f"skipped, though root can have what it needs: {NO_IPERF3}"]),
        (WAN, False, []),
        (Run("tests/wan", 0, {}, {str(Lack(Need.ROOT)): 60}), False, []),
        (Run("tests/wan", 0, {}, {"no time": 1}), False, ["a skip's reason names no kind of tests/needs.py: no time"]),
        (Run("tests -k nothing", 5), True, ["pytest tests -k nothing: exit code 5"]),
    ],
)
def test_what_is_no_success(run: Run, is_root: bool, found: list[str]) -> None:
    assert faults([run], is_root=is_root) == found


def test_no_run_at_all_is_no_success(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 1
    assert "FAILED: pytest was never run to its end" in capsys.readouterr().out


def test_the_plugin_notes_a_run(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(
        "import pytest\nfrom tests.needs import *\n"
        "@unless(Lack(Need.PACKAGES, 'iperf3'))\ndef test_a(): pass\n"
        "def test_b(): skip(Lack(Need.PACKAGES, 'iperf3'))\ndef test_c(): pass\n"
    )
    noted = tmp_path / "noted"
    noted.mkdir()
    options = ["-q", "-c", os.devnull, "--rootdir", str(tmp_path), "-p", "tests.tally", "-p", "no:cacheprovider"]
    command = [sys.executable, "-m", "pytest", *options, str(tmp_path / "test_it.py")]
    environment = {**os.environ, "SELAT_TALLY": str(noted), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    for options in ([], ["-k", "nothing"]):
        subprocess.run([*command, *options], cwd=ROOT, env=environment, check=False)
    runs = sorted(load(noted), key=lambda run: run.exit_code)
    assert [(run.exit_code, run.outcomes, run.skipped) for run in runs] == [
        (0, {"passed": 1, "skipped": 2}, {NO_IPERF3: 2}),
        (5, {}, {}),
    ]


def test_every_skip_names_a_kind() -> None:
    pattern = re.compile(r"pytest\.skip\(|mark\.skip|importorskip|SkipTest")
    allowed = {ROOT / "tests" / "needs.py", Path(__file__)}
    bare = [path for path in (ROOT / "tests").rglob("*.py") if pattern.search(path.read_text())]
    assert set(bare) <= allowed


def test_all_parts_run_though_one_fails(tmp_path: Path) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    script(tmp_path / "bin" / "make", 'echo "make $*"; [ "$*" != check ]')
    script(tmp_path / ".venv" / "bin" / "python", 'echo "python $1 $2"')
    environment = {**os.environ, "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run([tmp_path / ".ci" / "run"], capture_output=True, text=True, env=environment, check=False)
    assert done.stdout.splitlines() == [
        "make check",
        "make --keep-going test",
        "python -m tests.tally",
        "failed: make check",
    ]
    assert done.returncode == 1


@pytest.mark.parametrize(
    ("user", "apt", "said"),
    [
        (1000, "exit 1", ["some tests are skipped; please install: PACKAGES"]),
        (
            0,
            "exit 100",
            [
                "installing PACKAGES with apt-get",
                "apt-get could not install: PACKAGES; some tests are skipped",
            ],
        ),
        (0, f"echo noise; echo noise >&2; {INSTALL}", ["installing PACKAGES with apt-get"]),
    ],
    ids=["not root", "no archive", "root"],
)
def test_set_up_says_in_a_line_what_is_missing(tmp_path: Path, user: int, apt: str, said: list[str]) -> None:
    """The script finds programs only in a directory, into which a fake `apt-get` may put them."""
    tools = tmp_path / "bin"
    script(tools / "id", f"echo {user}")
    script(tools / "uname", "echo x86_64")
    script(tools / "timeout", 'shift; exec "$@"')
    script(tools / "apt-get", f"cd {tools}; {apt}")
    # The script itself adds the directories of root, which may have the programs.
    text = (ROOT / "scripts" / "setup_wan").read_text().replace("PATH=$PATH:/usr/sbin:/sbin\n", "")
    script(tmp_path / "setup_wan", text)
    done = subprocess.run(
        ["/bin/sh", tmp_path / "setup_wan"], capture_output=True, text=True, env={"PATH": str(tools)}, check=False
    )
    packages = "iproute2 iputils-ping iperf3 ethtool user-mode-linux busybox-static prometheus"
    assert done.stderr.splitlines() == [f"setup_wan: {line.replace('PACKAGES', packages)}" for line in said]
    assert (done.returncode, done.stdout) == (0, "")


def script(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
