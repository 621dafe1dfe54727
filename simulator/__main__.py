"""Runs published evaluations again, in virtual time: `python -m simulator awan [--rounds 10] [--into docs/results]`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from evidence.provenance import code_at_start
from simulator.awan import report as awan
from simulator.nako import report as nako
from simulator.sana import report as sana
from simulator.wasp import report as wasp

EVALUATIONS = {"awan": awan.write, "sana": sana.write, "wasp": wasp.write, "nako": nako.write}


def main() -> int:
    """Writes one page for each evaluation, and says where."""
    parser = argparse.ArgumentParser(prog="python -m simulator", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(EVALUATIONS)}; none: all")
    parser.add_argument("--rounds", type=int, default=10, help="seeds of each run (default %(default)s)")
    parser.add_argument(
        "--into", type=Path, default=Path("docs/results"), help="directory of the pages (default %(default)s)"
    )
    arguments = parser.parse_args()
    unknown = sorted(set(arguments.names) - EVALUATIONS.keys())
    if unknown:
        parser.error(f"there is no evaluation {unknown[0]}: there are {', '.join(EVALUATIONS)}")
    if arguments.rounds < 1:
        parser.error("--rounds is at least 1")
    code_at_start()
    for name in arguments.names or EVALUATIONS:
        page = EVALUATIONS[name](arguments.into, arguments.rounds)
        sys.stdout.write(f"{page}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
