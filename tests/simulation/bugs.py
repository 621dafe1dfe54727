"""Bugs of the past, and steps that somebody might leave out: put back one at a time, each has to be found.

A bug is what the code would be with it: texts of today's code, with what stood in their place. A test holds that each
text is there once.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.simulation.checks import Check
from tests.simulation.plan import Plan, drawn
from tests.simulation.worker import ROOT, played

PACKAGES = ("contract", "evidence", "machine", "master", "planner", "selat", "site_agent", "tests", "wire")
_LEFT_OUT = shutil.ignore_patterns("__pycache__", "java", "*.jar")


@dataclass(frozen=True, slots=True)
class Edit:
    """A text of a file of today, and what stands in its place."""

    path: str
    now: str
    then: str


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug, by what it does."""

    name: str
    edits: tuple[Edit, ...]


_READERS_LATE = Edit(
    "site_agent/agent/runtime.py", "                await self._hold_inputs(spec)\n", "                continue\n"
)

BUGS = (
    Bug(
        "an epoch's file is renamed before it is synced",
        (
            Edit(
                "site_agent/channels/directory.py",
                "self._files.write(temporary_path(self.path, epoch), parts, sync=True)",
                "self._files.write(temporary_path(self.path, epoch), parts, sync=False)",
            ),
        ),
    ),
    Bug(
        "a merge's state is not synced before its checkpoint names it",
        (Edit("site_agent/state/runs.py", "        posix.sync(self._file)\n", ""),),
    ),
    Bug(
        "a small file is renamed before it is synced",
        (Edit("site_agent/base/durable.py", "            posix.sync(file)\n", "            pass\n"),),
    ),
    Bug(
        "a merge acknowledges what no checkpoint includes",
        (
            Edit(
                "site_agent/tasks/gather.py",
                "        await self._state.save(checkpoint)\n",
                "        await self._context.in_thread(lambda: self._port.acknowledge(checkpoint.cursors))\n"
                "        await self._state.save(checkpoint)\n",
            ),
        ),
    ),
    Bug(
        "a merge that was killed forgets which windows are out",
        (
            Edit(
                "site_agent/tasks/gather.py",
                "closed = [c for c in (self._checkpoint.closed_us, emitted.closed_us) if c is not None]",
                "closed = [c for c in (self._checkpoint.closed_us,) if c is not None]",
            ),
        ),
    ),
    Bug(
        "a merge that was killed counts rows that it reads again",
        (
            Edit(
                "site_agent/tasks/gather.py",
                "if origin.epoch >= self._counted.get(origin.channel, 0):",
                "if origin.epoch >= 0:",
            ),
        ),
    ),
    Bug(
        "a source goes on where it was when its process began, not after its last epoch",
        (
            Edit(
                "site_agent/tasks/source.py",
                "position = position_after(context.log.epochs.last_manifest, initial)",
                "position = position_after(None, initial)",
            ),
        ),
    ),
    Bug(
        "an agent that has started answers for channels of which the master has not told it yet",
        (
            Edit(
                "site_agent/agent/runtime.py",
                "        self._services.store.confirmed = False\n",
                "        self._services.store.confirmed = True\n",
            ),
        ),
    ),
    Bug(
        "a channel that was just joined is taken for one that nobody reads",
        (
            Edit(
                "site_agent/router/router.py",
                "return frozenset(self._readers) | ({self._joining} if self._joining is not None else frozenset())",
                "return frozenset()",
            ),
        ),
    ),
    Bug(
        "a file that could not be written whole stays, and an epoch of a full disk is committed",
        (
            Edit(
                "site_agent/base/files.py",
                "        rest = rest[file.write(rest) :]\n",
                "        with suppress(OSError):\n            file.write(rest)\n        return\n",
            ),
        ),
    ),
    Bug(
        "an agent ends when it cannot take up its tasks on a full disk",
        (
            Edit(
                "site_agent/agent/loops.py",
                "                self._say_not_applied(self._stored, error)\n",
                "                raise\n",
            ),
        ),
    ),
    Bug(
        "a query whose site is away begins ahead of the site's slots",
        (Edit("master/leases/streaming.py", "        self._leases.follow_sites()\n", ""),),
    ),
    Bug(
        "readers at a site are known only once they read",
        (_READERS_LATE,),
    ),
    Bug(
        "a combining task acknowledges its own channel for its whole site",
        (
            _READERS_LATE,
            Edit("site_agent/agent/runtime.py", "own = [spec.task_id] if", "own = [self._services.site] if"),
            Edit(
                "site_agent/tasks/holding.py",
                "query_id=spec.query_id, beside=beside)",
                "query_id=spec.query_id, beside=[*beside, log.id])",
            ),
            Edit(
                "site_agent/tasks/combine.py",
                "        context.log.readers.set_awaited(context.spec.task_id, None)\n",
                "        task_id = context.spec.task_id\n"
                "        await context.router.subscribe(context.log.id, context.site, task_id, keeps=True)\n",
            ),
            Edit(
                "site_agent/tasks/holding.py",
                "context.log.acknowledge(context.spec.task_id, out - 1)",
                "context.router.acknowledge(context.log.id, context.spec.task_id, out - 1)",
            ),
        ),
    ),
    Bug(
        "a merge that is to end just when rows come goes on",
        (
            Edit(
                "site_agent/tasks/gather.py",
                "            async with asyncio.timeout(max(0.0, due_s) if moved else None) as self._waiting:\n"
                "                return await self._port.next(max_bytes=limits.port_batch_bytes)\n",
                "            taking = self._port.next(max_bytes=limits.port_batch_bytes)\n"
                "            return await asyncio.wait_for(taking, max(0.0, due_s) if moved else None)\n",
            ),
        ),
    ),
    Bug(
        "a merge that waits for rows acknowledges nothing",
        (
            Edit(
                "site_agent/tasks/gather.py",
                "        moved = dict(self._port.cursors) != dict(self._checkpoint.cursors)\n",
                "        moved = False\n",
            ),
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Hunt:
    """How a bug was looked for."""

    bug: Bug
    played: int
    after: int | None
    """The schedules until one failed; None: none did."""
    check: Check | None = None
    seed: int = 0

    def row(self) -> tuple[str, str, str, str]:
        """A row of the table: the bug, after how many schedules, at which seed, and what was wrong."""
        if self.after is None or self.check is None:
            return self.bug.name, f"not in {self.played}", "", ""
        return self.bug.name, str(self.after), str(self.seed), self.check.value

    def line(self) -> str:
        return f"| {' | '.join(self.row())} |"


def hunted(bug: Bug, *, first: int, most: int, workers: int) -> Hunt:
    """Put the bug back in a copy of the code, and play schedules until one fails that passes without it."""
    with with_bug(bug) as root:
        plans = (drawn(first + number) for number in range(most))
        for number, outcome in enumerate(played(plans, workers=workers, root=root), start=1):
            if outcome.failed is not None and _passes(outcome.plan):
                return Hunt(bug, number, number, outcome.failed, outcome.plan.seed)
    return Hunt(bug, most, None)


def _passes(plan: Plan) -> bool:
    (outcome,) = played([plan], workers=1)
    return outcome.failed is None


@contextmanager
def with_bug(bug: Bug) -> Iterator[Path]:
    """A copy of the code with the bug.

    Raises:
        ValueError: a text that the bug replaces is not there once.
    """
    with TemporaryDirectory(prefix="selat-bug-") as made:
        root = Path(made)
        for package in PACKAGES:
            shutil.copytree(ROOT / package, root / package, ignore=_LEFT_OUT)
        for edit in bug.edits:
            path = root / edit.path
            path.write_text(edited(path.read_text(), edit))
        yield root


def edited(text: str, edit: Edit) -> str:
    """Raises ValueError when the text that is replaced is not there once."""
    if text.count(edit.now) != 1:
        raise ValueError(f"{edit.path} has {text.count(edit.now)} times {edit.now!r}")
    return text.replace(edit.now, edit.then)
