"""`python -m tests.soak`: exit code 1 when a result differed from the oracle's."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random

import selat
from tests.e2e.cluster import wait_until
from tests.e2e.faults import Queries, Scene, running_scene
from tests.soak.faults import break_things
from tests.soak.report import HEAD, Round, document, summary
from tests.soak.work import Work

ROUND_TIMEOUT_S = 300.0
RESTART_TIMEOUT_S = 180.0


def main() -> int:
    options = _options()
    started, clock_s = datetime.now(UTC), time.monotonic()
    rounds: list[Round] = []

    def lasted() -> timedelta:
        return timedelta(seconds=time.monotonic() - clock_s)

    with (
        tempfile.TemporaryDirectory(prefix="selat-soak-") as root,
        running_scene(Path(root), agent_arguments=()) as scene,
    ):
        _say(HEAD)
        while lasted() < timedelta(minutes=options.minutes):
            rounds.append(_round(scene, Path(root), len(rounds) + 1, options.seed))
            _say(rounds[-1].line())
            if options.table is not None:
                command = f"python -m tests.soak --minutes {options.minutes:g} --seed {options.seed}"
                options.table.write_text(document(rounds, lasted(), started=started, command=command))
    _say(f"\n{summary(rounds, lasted())}")
    return 1 if any(r.difference for r in rounds) else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="begin no round after so long (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the first round; each next one has the next number")
    parser.add_argument("--table", type=Path, help="file for the table, in Markdown, written after each round")
    return parser.parse_args()


def _round(scene: Scene, directory: Path, number: int, first_seed: int) -> Round:
    seed = first_seed + number - 1
    started_s = time.monotonic()
    faults: list[str] = []
    rows, difference = 0, ""
    try:
        with selat.connect(scene.cluster.address) as client:
            _await_everything(scene, client)
            work = Work(client, scene, number, directory)
            queries = work.start()
            faults = break_things(scene, Random(seed), lambda: _over(queries))
            wait_until(lambda: work.finished.is_set() and _over(queries), ROUND_TIMEOUT_S)
            rows = work.check()
            work.clear()
    except (AssertionError, selat.SelatError) as error:
        difference = str(error) or type(error).__name__
    return Round(number, seed, tuple(faults), time.monotonic() - started_s, rows, difference)


def _await_everything(scene: Scene, client: selat.Client) -> None:
    """Until all that was killed in the round before serves again."""
    for status in scene.cluster.statuses:
        scene.cluster.await_ready(status.name)

    def alive() -> bool:
        with suppress(selat.SelatError):
            return all(site.state is selat.SiteState.ALIVE for site in client.sites())
        return False

    wait_until(alive, RESTART_TIMEOUT_S)


def _over(queries: Queries) -> bool:
    """The master may be away, or frozen: then nothing is over yet."""
    with suppress(selat.SelatError):
        return all(query.state().over for query in queries.values())
    return False


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
