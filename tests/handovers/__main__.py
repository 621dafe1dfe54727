"""`python -m tests.handovers`: exit code 1 when a result differed from the oracle's, or something was left behind."""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

import selat
from evidence.provenance import code_at_start, facts
from tests.e2e.faults import Scene, running_scene
from tests.handovers.plan import PAIRS, draw
from tests.handovers.report import TABLE, Run, record, run_section, summary
from tests.handovers.run import play
from tests.soak.diagnosis import diagnosis


def main() -> int:
    options = _options()
    code, began, begun_s = code_at_start(), datetime.now(UTC), time.monotonic()
    command = f"python -m tests.handovers --seed {options.seed} --runs {options.runs} --minutes {options.minutes:g}"
    runs: list[Run] = []
    root = Path(tempfile.mkdtemp(prefix="selat-handovers-"))
    with ExitStack() as stack:
        _say(TABLE)
        scene: Scene | None = None
        for seed in range(options.seed, options.seed + options.runs):
            if time.monotonic() - begun_s > options.minutes * 60:
                break
            if scene is None:
                scene = stack.enter_context(running_scene(root / f"cluster-{seed}", agent_arguments=()))
            runs.append(_played(scene, seed))
            _say(runs[-1].line())
            if runs[-1].wrong:
                _say(f"{diagnosis(scene.cluster)}\nkept: {root}")
                scene = None
                stack.close()
            if options.table is not None:
                told = facts(code, command, {"PySpark": "pyspark", "DuckDB": "duckdb"})
                record(options.table, run_section(began, str(code), told, runs, time.monotonic() - begun_s))
    failed = any(run.wrong for run in runs)
    if not failed:
        shutil.rmtree(root, ignore_errors=True)
    _say(f"\n{summary(runs)}.")
    return 1 if failed else 0


def _played(scene: Scene, seed: int) -> Run:
    """Play a seed; an error is a difference, too."""
    plan, begun_s = draw(seed), time.monotonic()
    try:
        return play(scene, plan)
    except (AssertionError, selat.SelatError, OSError) as error:
        told = (f"{type(error).__name__}: {error}",)
        seconds = time.monotonic() - begun_s
        return Run(seed, plan.kind.value, str(plan.fault), plan.rows.value, False, "unknown", seconds, seconds, told)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.handovers", description=__doc__)
    parser.add_argument("--runs", type=int, default=len(PAIRS), help="so many at most (default %(default)s: each pair)")
    parser.add_argument("--minutes", type=float, default=120, help="begin none after so long (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first one; each next one has the next number")
    parser.add_argument("--table", type=Path, help="the page whose section is written after each one")
    return parser.parse_args()


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
