"""All benchmarks, one after the other, each in a process of its own.

    python -m benchmarks [--record FILE] [NAME ...]

Those that need root are left out for others, unless they are named. One may have a file of its own beside FILE. Each
section is recorded when its benchmark ends, and the page is whole at any time: a benchmark that fails or takes too long
is reported as failed in the place of its section, and the others run all the same. Without names, sections of former
benchmarks are removed. Exit code: 1 when one failed.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.pages import OWN_PAGES, failed, page_of, record_section, tidy
from benchmarks.report import say
from evidence.page import PageError, Section, read_page

LIMITS_S = {
    "exchange": 120,
    "exchange_tls": 180,
    "source_stage": 300,
    "peers": 1200,
    "regions": 1300,
    "latency": 130,
    "delay": 900,
    "wan_bytes": 90,
    "combine": 300,
    "combine_narrow": 1800,
    "combine_narrow_long": 4500,
    "combine_tree": 600,
    "parts": 300,
    "handover": 600,
    "adaptation": 2700,
    "adaptation_no_share": 2700,
    "adaptation_orders": 5400,
    "placing": 120,
    "state": 900,
    "state_away": 600,
    "state_combined": 900,
    "stages": 120,
    "epoch_cost": 300,
    "wire_format": 60,
    "leases": 90,
    "startup": 300,
    "sharing_planner": 120,
    "sharing": 2700,
    "wordcount": 480,
    "large_results": 900,
    "monitor": 600,
}
"""In the order of the page; two hours and a quarter to two hours and three quarters together."""
NEED_ROOT = frozenset({"monitor", "adaptation", "adaptation_no_share", "adaptation_orders"})
GRACE_S = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(LIMITS_S)}; none: all")
    parser.add_argument("--record", type=Path, metavar="FILE", help="replace the sections of FILE")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - LIMITS_S.keys())
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]}: there are {', '.join(LIMITS_S)}")
    try:
        bad = [name for name in arguments.names or _possible() if not _run_and_record(name, arguments.record)]
        if arguments.record and not arguments.names:
            tidy(arguments.record, [name for name in LIMITS_S if name not in OWN_PAGES])
    except PageError as error:
        say(f"{error}. Bring back the page as it was, or remove it")
        return 1
    for name in bad:
        say(f"{name} failed")
    return 1 if bad else 0


def _possible() -> list[str]:
    """All that this user may run."""
    left_out = NEED_ROOT if os.geteuid() != 0 else frozenset()
    for name in left_out:
        say(f"{name} is left out: it needs root")
    return [name for name in LIMITS_S if name not in left_out]


def _run_and_record(name: str, record: Path | None) -> bool:
    """True when the benchmark succeeded; otherwise its failure is on the page."""
    page = page_of(record, name) if record else None
    before = _section(name, page)
    problem = _run(name, ["--record", str(page)] if page else [])
    if problem and page:
        written = _section(name, page)
        record_section(page, failed(name, problem, written if written != before else None))
    return not problem


def _section(name: str, page: Path | None) -> Section | None:
    return next((section for section in read_page(page) if section.name == name), None) if page else None


def _run(name: str, recording: Sequence[str]) -> str:
    """Run the benchmark. Returns the reason for its failure, empty on success."""
    say(f"{name}, {LIMITS_S[name]} s at most")
    with subprocess.Popen([sys.executable, "-m", f"benchmarks.{name}", *recording]) as process:
        try:
            code = process.wait(LIMITS_S[name])
        except subprocess.TimeoutExpired:
            # As Ctrl-C: it ends its own processes and removes its files.
            process.send_signal(signal.SIGINT)
        else:
            return f"exit code {code}" if code else ""
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
        return f"not over after {LIMITS_S[name]} s"


if __name__ == "__main__":
    sys.exit(main())
