"""All benchmarks, one after the other, each in a process of its own.

    python -m benchmarks [--record FILE] [NAME ...]

Exit code: 1 when one of them failed or took too long; the others run all the same.
"""

from __future__ import annotations

import argparse
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
}
"""In the order of the record; ten to twenty minutes together."""
GRACE_S = 20


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(LIMITS_S)}; none: all")
    parser.add_argument("--record", type=Path, metavar="FILE", help="replace the sections of FILE")
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - LIMITS_S.keys())
    if unknown:
        parser.error(f"there is no benchmark {unknown[0]}: there are {', '.join(LIMITS_S)}")
    failed = [name for name in arguments.names or LIMITS_S if not _run(name, arguments.record)]
    for name in failed:
        say(f"{name} failed")
    return 1 if failed else 0


def _run(name: str, record: Path | None) -> bool:
    say(f"{name}, {LIMITS_S[name]} s at most")
    recording = ["--record", str(record)] if record else []
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
