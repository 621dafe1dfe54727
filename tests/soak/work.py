"""The work of a round while things break: the queries of its plan, and the checks of their results."""

from __future__ import annotations

import re
import shutil
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path

import duckdb

import selat
from tests.e2e.cluster import left_of
from tests.e2e.dataset import FORMATS, HEADER, Dataset
from tests.e2e.faults import Scene
from tests.e2e.oracle import Answer, assert_among, assert_same, connect, expected, rows_of
from tests.e2e.sinks import NOTHING, half_written, written
from tests.soak.asking import declare, patiently, submit, unless_over, unless_refused
from tests.soak.plan import Batch, Kind, Move, Plan, Visit
from tests.soak.streams import generated, generator_ddl, push_ddl, pushed, seconds_from_now

SOLD = "sold"
"""The table that batch queries read; it has the rows of `orders`."""


def sold_ddl(dataset: Dataset) -> str:
    bindings = ", ".join(
        f"AT {site} WITH ('path' = '{dataset.root}/{site}/orders', 'format' = '{form}'{HEADER.get(site, '')})"
        for site, form in FORMATS.items()
    )
    return (
        f"CREATE TABLE {SOLD} (id BIGINT, ts TIMESTAMP, product STRING, quantity INT, price DOUBLE, "
        f"fee DECIMAL(10,2), express BOOLEAN) WITH ('connector' = 'files') {bindings}"
    )


@dataclass
class Running:
    """One query of the plan from its submission on."""

    asked: Visit | Batch
    query: selat.Query
    output: Path | None
    """The directory of its sink."""

    @property
    def may_be_cancelled(self) -> bool:
        return isinstance(self.asked, Visit) and self.asked.cancel_after_s is not None


@dataclass
class Work:
    """A round's queries. The names of its streams, sinks and queries are the round's own."""

    client: selat.Client
    scene: Scene
    plan: Plan
    directory: Path
    """The parent of its sinks' directories."""
    label: str
    running: dict[int, Running] = field(default_factory=dict)
    """The queries by their place in the plan."""
    done: Counter[str] = field(default_factory=Counter)
    """The features that occurred in addition to the planned ones."""
    generator_start: datetime = field(default_factory=lambda: seconds_from_now(0))

    def declare(self) -> None:
        """Make the streams of the plan."""
        ddl = {
            Kind.GENERATOR: generator_ddl(self.stream(Kind.GENERATOR), self.generator_start),
            Kind.PUSH: push_ddl(self.stream(Kind.PUSH)),
        }
        for kind in sorted(self.plan.kinds & ddl.keys(), key=lambda kind: kind.value):
            declare(self.client, ddl[kind])

    def stream(self, kind: Kind) -> str:
        return "orders" if kind is Kind.FILES else f"{kind.value}_{self.label}"

    def run(self) -> None:
        """Submit, pause, resume and cancel, each when its time has come; return when all of that is done."""
        begun_s = time.monotonic()
        for step in self.plan.steps():
            time.sleep(max(0.0, begun_s + step.at_s - time.monotonic()))
            if step.what == "submit":
                self.running[step.number] = self._submit(step.number, self.plan.asked[step.number])
            elif step.move is not None:
                self.done[self._move(self.running[step.number].query, step.move)] += 1
            else:
                query = self.running[step.number].query
                act = {"pause": query.pause, "resume": query.resume, "cancel": query.cancel}[step.what]
                self.done[f"{step.what} heard"] += unless_over(act)

    def _move(self, query: selat.Query, move: Move) -> str:
        """Ask for a move of a query's task, or for other parts of its merge. Returns what became of the request."""
        all_tasks = patiently(query.info).tasks
        shared = sorted({task.stage_id for task in all_tasks if task.query_id != query.id and task.stage_id[0] == "m"})
        if move.alone and shared:
            stage = shared[int(move.place * len(shared))]
            ask = partial(self.client.move_task, query.id, stage, move.site, alone=True)
            return "move alone begun" if unless_refused(ask) else "move alone refused"
        tasks = [task.task_id.split(".", 1)[1] for task in all_tasks if task.query_id == query.id]
        places = sorted(name for name in tasks if name[0] in "mf" or ".d" in name)
        if not places:
            return "move of nothing"
        place = places[int(move.place * len(places))]
        if move.parts and place[0] == "m":
            what, stage = "parts", place.split(".", maxsplit=1)[0]
            ask = partial(self.client.scale_stage, query.id, stage, move.parts, [move.site])
        else:
            what = "move without state" if move.without_state else "move"
            ask = partial(self.client.move_task, query.id, place, move.site, without_state=move.without_state)
        return f"{what} begun" if unless_refused(ask) else f"{what} refused"

    def _submit(self, number: int, asked: Visit | Batch) -> Running:
        name = f"{self.label}_{number}"
        output = self._sink(name, asked.sink_site) if asked.sink_site else None
        sql = asked.query.selat
        if isinstance(asked, Visit):
            sql = re.sub(r"\borders\b", self.stream(asked.kind), sql)
        insert = f"INSERT INTO sink_{name} " if output else ""
        return Running(asked, submit(self.client, f"{_settings(asked)}; {insert}{sql}", f"soak_{name}"), output)

    def _sink(self, name: str, site: str) -> Path:
        output = self.directory / f"sink_{name}"
        declare(
            self.client,
            f"CREATE SINK sink_{name} AT {site} "
            f"WITH ('connector' = 'parquet', 'path' = '{output}', 'roll_interval' = '500 ms')",
        )
        return output

    def over(self) -> bool:
        """The master may be away, or frozen: then nothing is over yet."""
        with suppress(selat.SelatError):
            return all(running.query.state().over for running in self.running.values())
        return False

    def done_so_far(self) -> list[tuple[int, int, int]]:
        """Rows in, rows out and tasks that ended, of each query: what changes as long as there is progress."""
        with suppress(selat.SelatError):
            infos = [running.query.info() for running in self.running.values()]
            ended = selat.TaskState.ENDED
            return [(i.rows_in, i.rows_out, sum(t.state is ended for t in i.tasks)) for i in infos]
        return []

    def behind(self, instant: datetime, awake: frozenset[str]) -> list[str]:
        """Merges over the pushed stream that have not passed that event time, although a site that they need is awake.

        Those of paused queries do not count.
        """
        return [
            f"{task.task_id} of {info.id} has the watermark {task.watermark}"
            for running in list(self.running.values())
            if isinstance(running.asked, Visit) and running.asked.kind is Kind.PUSH
            for info in [running.query.info()]
            if info.state is selat.QueryState.RUNNING
            and any(task.site in awake for task in info.tasks if task.stage_id.removeprefix("s").isdigit())
            for task in info.tasks
            if task.stage_id.removeprefix("m").isdigit() and (task.watermark is None or task.watermark < instant)
        ]

    def check(self) -> tuple[int, list[str]]:
        """Compare all results with the oracle's. Returns the number of rows, and the differences."""
        oracles: dict[Kind, duckdb.DuckDBPyConnection] = {}
        rows, wrong = 0, []
        for running in self.running.values():
            kind = running.asked.kind if isinstance(running.asked, Visit) else Kind.FILES
            if kind not in oracles:
                oracles[kind] = self._oracle(kind)
            try:
                rows += self._check(running, oracles[kind])
            except (AssertionError, selat.SelatError, duckdb.Error) as error:
                wrong.append(f"{running.query.id} ({running.asked}): {error}")
        return rows, wrong

    def _oracle(self, kind: Kind) -> duckdb.DuckDBPyConnection:
        db = connect(self.scene.dataset)
        if kind is not Kind.FILES:
            rows = generated(self.generator_start) if kind is Kind.GENERATOR else pushed(self.plan)
            db.register("rows_of_the_round", rows)
            db.execute("CREATE OR REPLACE TABLE orders AS SELECT * FROM rows_of_the_round")
        return db

    def _check(self, running: Running, db: duckdb.DuckDBPyConnection) -> int:
        info = patiently(running.query.info)
        wanted = expected(db, running.asked.query.oracle)
        rows = self._rows(running, db)
        if running.output is not None and rows == NOTHING:
            # A sink without rows has no files, and so no columns.
            wanted = replace(wanted, columns=())
        self._count(running, info)
        if info.state is selat.QueryState.CANCELLED and running.may_be_cancelled:
            assert_among(rows, wanted, "cancelled")
            return len(rows)
        assert info.state is selat.QueryState.FINISHED, f"{info.state.value} {info.reason}"
        # Of a query that began in the middle, windows from before may be there, and then they are whole.
        assert_among(rows, wanted, f"{info.rows_late} rows late")
        assert_same(_since_start(info, rows), _since_start(info, wanted), f"{info.rows_late} rows late")
        assert info.rows_malformed == 0, "malformed rows"
        if running.output is not None:
            assert half_written(running.output) == [], "files that are not committed"
        return len(rows)

    def _rows(self, running: Running, db: duckdb.DuckDBPyConnection) -> Answer:
        if running.output is not None:
            return written(db, running.output)
        return rows_of(patiently(lambda: running.query.results(follow=False).arrow()))

    def _count(self, running: Running, info: selat.QueryInfo) -> None:
        text = patiently(running.query.explain).text
        for word, told in (
            ("operators shared", ": shared with q-"),
            ("operators contained", ": made of the output of q-"),
            ("operators taken back", ": not shared with q-"),
        ):
            self.done[word] += text.count(told)
        self.done["rows late"] += info.rows_late
        for move in patiently(partial(self.client.moves, running.query.id)):
            kind = "parts" if move.scaled_stage else "derived move" if move.stage.startswith("s") else "move"
            kind = "move alone" if move.alone else kind
            self.done[f"{kind} {move.step.value.replace('_', ' ')}"] += 1

    def left(self) -> list[str]:
        """Descriptions of what is left after every query is over."""
        return left_of(self.client, self.scene.cluster)

    def clear(self) -> None:
        """Forget the round, so that the next one's recovery does not grow with the rounds."""
        outputs = [running.output for running in self.running.values() if running.output is not None]
        made = [self.stream(kind) for kind in self.plan.kinds - {Kind.FILES}]
        for name in [*made, *(output.name for output in outputs)]:
            patiently(partial(self.client.drop, name, if_exists=True))
        for output in outputs:
            shutil.rmtree(output, ignore_errors=True)


def _settings(asked: Visit | Batch) -> str:
    if isinstance(asked, Visit):
        parts = f"SET merge_parallelism = {asked.parts}"
        return f"SET sharing = '{asked.sharing}'; SET sharing_start = '{asked.start}'; {parts}"
    return f"SET sharing = 'net'; SET batch_scheduler = '{asked.scheduler}'; SET split_size = 0.05"


def _since_start(info: selat.QueryInfo, answer: Answer) -> Answer:
    """The part of an answer in which a query that began in the middle of its stream lacks nothing.

    The first column is the window's start.
    """
    starts_at = info.sharing.starts_at if info.sharing is not None else None
    return answer if starts_at is None else answer.since(starts_at)
