"""`python -m tests.soak`: exit code 1 when a result differed from the oracle's, or a round did not end."""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from evidence.provenance import code_at_start, facts
from tests.soak.draw import draw
from tests.soak.report import TABLE, Round, record, run_section, summary
from tests.soak.round import Stage


def main() -> int:
    options = _options()
    code, began, begun_s = code_at_start(), datetime.now(UTC), time.monotonic()
    command = shlex.join(["python", "-m", "tests.soak", *sys.argv[1:]])
    if options.table is not None and not options.append:
        options.table.unlink(missing_ok=True)
    rounds: list[Round] = []
    with Stage(Path(tempfile.mkdtemp(prefix="selat-soak-")), _say) as stage:
        _say(TABLE)
        while time.monotonic() - begun_s < options.minutes * 60 and len(rounds) < options.rounds:
            rounds.append(stage.play(draw(options.seed + len(rounds))))
            _say(rounds[-1].line())
            if options.table is not None:
                told = facts(code, command, {"PySpark": "pyspark", "DuckDB": "duckdb"})
                lasted_s = time.monotonic() - begun_s
                record(options.table, run_section(began, str(code), told, rounds, lasted_s))
    _say(f"\n{summary(rounds)}.")
    return 1 if any(r.difference for r in rounds) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="begin no round after so long (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=sys.maxsize, help="so many at most")
    parser.add_argument("--seed", type=int, default=1, help="of the first round; each next one has the next number")
    parser.add_argument("--table", type=Path, help="the page whose section is written after each round")
    parser.add_argument("--append", action="store_true", help="add to the runs that the page has")
    return parser.parse_args()


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
