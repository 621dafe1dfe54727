"""`python -m tests.simulation`: plays schedules by seed; exit code 1 when one failed."""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory

from evidence.provenance import code_at_start, facts
from site_agent.engine.jvm.session import SparkOptions, start_spark
from site_agent.engine.spark import SparkEngine
from tests.jvm import SHORT_LIVED
from tests.simulation.bugs import BUGS, hunted
from tests.simulation.loop import PROCESS
from tests.simulation.moving import moving
from tests.simulation.overtables import asked, over_tables
from tests.simulation.plan import Plan, drawn
from tests.simulation.report import bugs_section, readable, record, run_section, shown, tables_section
from tests.simulation.runs import Run
from tests.simulation.schedule import play
from tests.simulation.shrink import shrunk
from tests.simulation.trace import Trace
from tests.simulation.worker import played

_PACKAGES = {"DuckDB": "duckdb", "gRPC": "grpcio", "PyArrow": "pyarrow"}


def main() -> int:
    options = _options()
    logging.disable(logging.WARNING)
    logging.getLogger().addHandler(logging.NullHandler())
    for seed, what in ((options.play, _play), (options.shrink, _shrink), (options.compare, _compare)):
        if seed is not None:
            with _drawing(options) as draw:
                plan = draw(seed)
            return what(plan)
    if options.bugs is not None:
        return _hunt(options)
    with _drawing(options) as draw:
        return _run(options, draw)


@contextmanager
def _drawing(options: argparse.Namespace) -> Iterator[Callable[[int], Plan]]:
    """Yield the function that makes plans of seeds; those of queries over tables need Spark while the block runs."""
    if not options.tables:
        yield moving if options.moving else drawn
        return
    with TemporaryDirectory() as made:
        session = start_spark(slots=2, scratch=Path(made), options=SparkOptions(java_options=SHORT_LIVED))
        spark = SparkEngine(session, scratch=Path(made))
        yield lambda seed: asked(over_tables(seed), spark)
        session.stop()


def _run(options: argparse.Namespace, draw: Callable[[int], Plan]) -> int:
    code = code_at_start()
    run = Run.begun(options.seed, str(code), options.keep)
    before_s, began_s = run.tally.lasted_s, time.monotonic()
    end_s = began_s + options.minutes * 60

    def plans() -> Iterator[Plan]:
        seed = run.next_seed
        while time.monotonic() < end_s and (options.schedules is None or seed < run.first + options.schedules):
            yield draw(seed)
            seed += 1

    for outcome in played(plans(), workers=options.workers):
        run.tally.lasted_s = before_s + time.monotonic() - began_s
        run.take(outcome)
        if outcome.failed is not None:
            _say(readable(outcome))
        if run.is_worth_a_line:
            _say(run.tally.line())
    run.keep()
    if options.record is not None:
        told = facts(code, _command(), _PACKAGES)
        write_run = tables_section if options.tables else run_section
        record(options.record, write_run(str(code), told, run.tally, run.first))
    _say(f"{run.tally.line()}.")
    return 1 if run.tally.failed else 0


def _hunt(options: argparse.Namespace) -> int:
    code = code_at_start()
    hunts = []
    for bug in (bug for bug in BUGS if options.bugs in bug.name):
        hunts.append(hunted(bug, first=options.seed, most=options.most, workers=options.workers))
        _say(hunts[-1].line())
        if options.record is not None:
            told = facts(code, _command(), _PACKAGES)
            record(options.record, bugs_section(str(code), told, [hunt.row() for hunt in hunts], options.record))
    return 1 if any(hunt.after is None for hunt in hunts) else 0


def _play(plan: Plan) -> int:
    """With the product's log, in the order and time of the world."""
    logging.disable(logging.NOTSET)
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(_WorldFormatter("%(levelname)s %(name)s %(message)s"))
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(logging.INFO)
    _say(shown(plan))
    outcome = play(plan, Trace(None))
    _say(readable(outcome))
    return 1 if outcome.failed is not None else 0


def _shrink(plan: Plan) -> int:
    check = play(plan).failed
    if check is None:
        _say(f"seed {plan.seed} passes")
        return 0
    small = shrunk(plan, lambda candidate: play(candidate).failed is check)
    _say(readable(play(small)))
    _say(repr(small))
    return 1


def _compare(plan: Plan) -> int:
    """Play it twice in this process, once with a cold memo, and print the first line that differs."""
    traces = []
    for _ in range(2):
        trace = Trace(None)
        play(plan, trace)
        traces.append(trace.kept)
    for number, (one, other) in enumerate(zip_longest(*traces), start=1):
        if one != other:
            _say(f"line {number}:\n  {one}\n  {other}")
            return 1
    _say(f"{len(traces[0])} lines are the same")
    return 0


class _WorldFormatter(logging.Formatter):
    """Lines with the world's time and process in place of the machine's."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        try:
            now_s = asyncio.get_running_loop().time()
        except RuntimeError:
            now_s = 0.0
        return f"{now_s:11.6f} {PROCESS.get(None)} {super().format(record)}"


def _command() -> str:
    return shlex.join(["python", "-m", "tests.simulation", *sys.argv[1:]])


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5, help="begin none after so long (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the first schedule; each next one has the next number")
    parser.add_argument("--moving", action="store_true", help="plans in which tasks move all the time")
    parser.add_argument(
        "--tables", action="store_true", help="plans of random queries over tables, which Spark analyses"
    )
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="processes (default %(default)s)")
    parser.add_argument("--schedules", type=int, help="the number of schedules, with those of --keep (default: no end)")
    parser.add_argument(
        "--keep", type=Path, metavar="DIRECTORY", help="where a run is kept that another command goes on with"
    )
    parser.add_argument("--record", type=Path, help="the page whose section is written at the end")
    parser.add_argument("--play", type=int, metavar="SEED", help="play one schedule, with the product's log")
    parser.add_argument("--shrink", type=int, metavar="SEED", help="make a schedule that fails smaller")
    parser.add_argument("--compare", type=int, metavar="SEED", help="play one schedule twice, and compare the traces")
    parser.add_argument(
        "--bugs",
        nargs="?",
        const="",
        metavar="TEXT",
        help="put bugs of the past back, those with TEXT, and look for each",
    )
    parser.add_argument("--most", type=int, default=2000, help="schedules for each bug (default %(default)s)")
    return parser.parse_args()


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    code = main()
    # Worlds leave processes that were killed in the middle: nothing of them may run now.
    os._exit(code)
