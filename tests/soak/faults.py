"""Random faults, drawn from a seeded generator, one after the other."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from random import Random

from tests.e2e.faults import Scene
from tests.e2e.proxy import Cut

MOST_PER_ROUND = 5
PAUSE_S = (0.5, 5.0)
FREEZE_S = (1.0, 12.0)
CUT_S = (1.0, 15.0)


def break_things(scene: Scene, rng: Random, done: Callable[[], bool]) -> list[str]:
    """Faults until there were enough, or nothing is left to disturb; what was done, in words."""
    kinds = (_kill, _freeze, _cut)
    told = []
    for _ in range(rng.randint(1, MOST_PER_ROUND)):
        time.sleep(rng.uniform(*PAUSE_S))
        if done():
            break
        told.append(rng.choice(kinds)(scene, rng))
    return told


def _kill(scene: Scene, rng: Random) -> str:
    name = rng.choice([status.name for status in scene.cluster.statuses])
    hit = _signal(scene, name, signal.SIGKILL)
    return f"kill {name}" if hit else f"miss {name} (it was being started)"


def _freeze(scene: Scene, rng: Random) -> str:
    name = rng.choice([status.name for status in scene.cluster.statuses])
    seconds = rng.uniform(*FREEZE_S)
    pid = _signal(scene, name, signal.SIGSTOP)
    time.sleep(seconds)
    if pid is not None and scene.cluster.pids.get(name) == pid:
        _signal(scene, name, signal.SIGCONT)
    return f"freeze {name} {seconds:.0f} s" if pid else f"miss {name} (it was being started)"


def _cut(scene: Scene, rng: Random) -> str:
    site = rng.choice(sorted(scene.links))
    cut = rng.choice(tuple(Cut))
    seconds = rng.uniform(*CUT_S)
    with scene.links[site].severed(cut):
        time.sleep(seconds)
    return f"{cut.value} link to {site} {seconds:.0f} s"


def _signal(scene: Scene, name: str, number: signal.Signals) -> int | None:
    """The process that got it; None when the child is just being started again."""
    pid = scene.cluster.pids.get(name)
    if pid is not None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)
    return pid
