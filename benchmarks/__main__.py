"""All benchmarks, one after the other, each in a process of its own.

    python -m benchmarks [--record FILE] [NAME ...]

Those that need root are left out for others, unless they are named. One may have a file of its own beside FILE.
Exit code: 1 when one of them failed or took too long; the others run all the same.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

from benchmarks.report import say

LIMITS_S = {
    "exchange": 120,
    "source_stage": 130,
    "regions": 400,
    "latency": 130,
    "wan_bytes": 40,
    "stages": 120,
    "epoch_cost": 80,
    "wire_format": 20,
    "leases": 90,
    "startup": 300,
    "sharing_planner": 120,
    "sharing": 400,
    "wordcount": 480,
    "large_results": 600,
    "monitor": 600,
}
"""In the order of the record; thirty to forty minutes together."""
NEED_ROOT = frozenset({"monitor"})
OWN_RECORDS = {"monitor": "wan-monitor.md"}
GRACE_S = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(LIMITS_S)}; none: all")
    parser.add_argument("--record", type=Path, metavar="FILE", help="replace the sections of FILE")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - LIMITS_S.keys())
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]}: there are {', '.join(LIMITS_S)}")
    failed = [name for name in arguments.names or _possible() if not _run(name, arguments.record)]
    for name in failed:
        say(f"{name} failed")
    return 1 if failed else 0


def _possible() -> list[str]:
    """All that this user may run."""
    left_out = NEED_ROOT if os.geteuid() != 0 else frozenset()
    for name in left_out:
        say(f"{name} is left out: it needs root")
    return [name for name in LIMITS_S if name not in left_out]


def _run(name: str, record: Path | None) -> bool:
    say(f"{name}, {LIMITS_S[name]} s at most")
    recording = ["--record", str(record.with_name(OWN_RECORDS.get(name, record.name)))] if record else []
    with subprocess.Popen([sys.executable, "-m", f"benchmarks.{name}", *recording]) as process:
        try:
            return process.wait(LIMITS_S[name]) == 0
        except subprocess.TimeoutExpired:
            # As Ctrl-C: it ends its own processes and removes its files.
            process.send_signal(signal.SIGINT)
        try:
            process.wait(GRACE_S)
        except subprocess.TimeoutExpired:
            process.kill()
        return False


if __name__ == "__main__":
    sys.exit(main())
