"""Writes the scenario of random changes: `python scripts/make_scenarios.py [--check]`.

Its source prints the ranges (bandwidth 0.51 to 2.36 times, rate 0.8 to 2.4 times) and that all slots are lost at 540 s
for 60 s, but no trace. So factors are drawn from these ranges every 60 s with a fixed seed. The gateway's slots are not
lost: with them the master would go, which the source's has not.
"""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

FILE = Path(__file__).parents[1] / "deploy" / "scenarios" / "random-trace.yaml"
SEED = 413
STEP_S = 60
END_S = 1800
LOST = ("eu", "asia")
LOST_S, BACK_S = 540, 600


def document() -> str:
    rng = random.Random(SEED)
    lines = [
        "# Rate and bandwidth change at random every minute for half an hour; all sites but the gateway `us` are lost",
        "# at 540 s for 60 s.",
        f"# Drawn from the source's ranges (seed {SEED}); `python scripts/make_scenarios.py` wrote this file.",
        "# `clicks` is the stream whose rate changes.",
    ]
    for at_s in range(STEP_S, END_S, STEP_S):
        lines.append(f'- {{at: {at_s}s, set: "*->*", bandwidth: x{rng.uniform(0.51, 2.36):.2f}}}')
        lines.append(f"- {{at: {at_s}s, rate: clicks, factor: {rng.uniform(0.8, 2.4):.2f}}}")
    lines += [f"- {{at: {LOST_S}s, kill: {site}}}" for site in LOST]
    lines += [f"- {{at: {BACK_S}s, revive: {site}}}" for site in LOST]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit code 1 when the file is not up to date"
    )
    check = parser.parse_args().check
    current = FILE.exists() and FILE.read_text() == document()
    if not current and not check:
        FILE.write_text(document())
    if not current and check:
        print(f"{FILE.name} is not up to date: run python scripts/make_scenarios.py")
    return 1 if check and not current else 0


if __name__ == "__main__":
    sys.exit(main())
