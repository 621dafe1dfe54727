"""A merge with 64 MB of state moves over a link of 20 Mbit/s while its query runs, beside stop-and-copy.

    python -m benchmarks.handover [--state-mb 64] [--record FILE]

The query's source and merge are at eu, and the merge moves to us. Its groups are random numbers: neither the state nor
the rows can be compressed. Beside it, another query sends from eu to us what takes half of the link. Routers emulate
the link. What was sent, when, is taken from the channels' files.

Stop-and-copy is done by hand with the same query, before the move: it is paused, a checkpoint of the merge's size is
sent over a link that is shaped to the same rate and shared with as many bytes a second as the other query sends, and it
is resumed, where it was: what loading the checkpoint takes is not counted.
"""

from __future__ import annotations

import argparse
import os
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import selat
from benchmarks.epoch_files import EpochFiles
from benchmarks.links import ShapedLink
from benchmarks.report import make_parser, publish, say, table
from selat.client.moves import MoveStep, TaskMove
from selat.dev.cluster import DevCluster
from selat.dev.processes import ClusterOptions

OLD, NEW = "eu", "us"
LINK_BITS_PER_S = 20e6
LINK_BYTES_PER_S = LINK_BITS_PER_S / 8
EPOCH_S = 1.0
KEYS = tuple(f"k{number}" for number in range(8))
GROUP_BYTES = 8 * len(KEYS)
"""What cannot be compressed of a row."""
ROWS_PER_S = 1_500
BESIDE_ROWS_PER_S = 20_000
BEFORE_S = 20.0
"""What is needed of the link is measured for so long before the move."""
STEPS_S = 4.0
"""What the steps of a move take besides what is sent: each waits for a heartbeat or two."""
PATIENCE_S = 600.0

TOPOLOGY = f"""
gateway: {NEW}
sites: {{{NEW}: {{slots: 2}}, {OLD}: {{slots: 4}}}}
default_link: {{bandwidth: 20Mbit/s, latency: 40ms}}
"""


@dataclass(frozen=True, slots=True)
class Need:
    """What the link is needed for before the move, in bytes per second."""

    beside: float
    inputs: float
    """What the merge's source gives out, which crosses the link as soon as the successor reads."""


@dataclass(frozen=True, slots=True)
class Phase:
    """A step of the move."""

    name: str
    begin_s: float
    end_s: float
    seed_bytes: int
    input_bytes: int
    beside_bytes: int


@dataclass(frozen=True, slots=True)
class Moved:
    """What the move took."""

    phases: tuple[Phase, ...]
    need: Need
    gap_s: float
    calm_gap_s: float
    """The longest gap before the move."""
    data_share: float
    predicted_s: float
    state_bytes: int
    seed_bytes: int
    missing_rows: int

    @property
    def took_s(self) -> float:
        return self.phases[-1].end_s - self.phases[0].begin_s

    @property
    def duplicate_bytes(self) -> int:
        return sum(phase.input_bytes for phase in self.phases)

    @property
    def predicted_bytes(self) -> float:
        return self.need.inputs * self.predicted_s


@dataclass(frozen=True, slots=True)
class Copied:
    """What stop-and-copy took."""

    shipped_bytes: int
    shipped_s: float
    gap_s: float


def predicted_s(state_bytes: int, need: Need) -> float:
    """How long the successor reads beside the old task: the seed gets what is left of the link, a fifth at least."""
    left = max(LINK_BYTES_PER_S - need.beside - need.inputs, LINK_BYTES_PER_S / 5)
    return state_bytes / left + STEPS_S


class Scene:
    """The two queries, and the tasks that are watched."""

    def __init__(self, client: selat.Client, files: EpochFiles, state_bytes: int) -> None:
        self._client = client
        self._files = files
        self.state_bytes = state_bytes
        rows = state_bytes // GROUP_BYTES
        self.query = self._query("kept", ROWS_PER_S, before_s=rows / ROWS_PER_S, grouped=True)
        self.beside = self._query("beside", BESIDE_ROWS_PER_S, before_s=0, grouped=False)
        _until(lambda: self.held_rows() >= rows, f"{rows:,} groups")
        self.source = self._task(self.query, "s")
        self.other = self._task(self.beside, "s")

    def _query(self, name: str, rows_per_s: int, *, before_s: float, grouped: bool) -> selat.Query:
        start = datetime.now(UTC) - timedelta(seconds=before_s)
        keys = ", ".join(KEYS)
        values = ", ".join(f"'column.{key}' = 'uniform(1, 9000000000000000000)'" for key in KEYS)
        self._client.sql(
            f"CREATE STREAM {name} ({', '.join(f'{key} BIGINT' for key in KEYS)}, ts TIMESTAMP, WATERMARK FOR ts) "
            f"WITH ('connector' = 'generator', 'rows_per_second' = '{rows_per_s}', "
            f"'start' = '{start.isoformat()}', {values}) AT {OLD}"
        )
        text = f"SELECT {keys} FROM {name}"
        if grouped:
            # No window ends while this runs.
            window = "window(ts, '1000 days')"
            inner = f"SELECT window.end AS e, {keys}, count(*) AS n FROM {name} GROUP BY {window}, {keys}"
            text = f"SELECT e, count(*) AS groups, sum(n) AS n FROM ({inner}) AS g GROUP BY e"
        query = self._client.sql(text)
        assert isinstance(query, selat.Query)
        return query

    def _task(self, query: selat.Query, kind: str) -> str:
        return next(task.task_id for task in query.info().tasks if task.stage_id.startswith(kind))

    def held_rows(self) -> int:
        """Rows of open windows at the merge."""
        return sum(task.state_rows for task in self.query.info().tasks if task.stage_id == "m1")

    def held_bytes(self) -> int:
        """What cannot be compressed of the merge's state."""
        return self.held_rows() * GROUP_BYTES

    def need(self) -> Need:
        """What passes in the time before the move."""
        begin_s = time.time()
        time.sleep(BEFORE_S)
        end_s = time.time()
        beside = self._files.bytes_of(OLD, self.other, begin_s, end_s)
        inputs = self._files.bytes_of(OLD, self.source, begin_s, end_s)
        say(f"{beside / BEFORE_S / 1e6:.2f} MB/s of the other query, {inputs / BEFORE_S / 1e6:.2f} MB/s of inputs")
        return Need(beside / BEFORE_S, inputs / BEFORE_S)

    def move(self, need: Need) -> Moved:
        """Move the merge, and wait until it is over."""
        begin_s, state_bytes = time.time(), self.held_bytes()
        say(f"the state has {state_bytes / 1e6:.1f} MB")
        calm_gap_s = self._files.longest_gap_s(OLD, self.source, begin_s - BEFORE_S, begin_s)
        steps: list[tuple[TaskMove, float]] = []
        for move in self._client.follow_move(self._client.move_task(self.query.id, "m1", NEW)):
            say(f"{move.step.value}")
            steps.append((move, time.time()))
        if steps[-1][0].step is not MoveStep.MOVED:
            raise RuntimeError(f"the merge did not move: {steps[-1][0].reason}")
        seed = next(c for c in self._files.channels(NEW) if c.startswith(self.query.id) and c.endswith(".seed"))
        ends = [at_s for _, at_s in steps[1:]]
        begins = [begin_s, *ends]
        phases = tuple(
            Phase(
                move.step.value,
                since_s,
                until_s,
                self._files.bytes_of(NEW, seed, since_s, until_s),
                self._files.bytes_of(NEW, self.source, since_s, until_s),
                self._files.bytes_of(NEW, self.other, since_s, until_s),
            )
            for (move, _), since_s, until_s in zip(steps, begins, ends, strict=False)
        )
        seeds = self._files.of(NEW, seed)
        first_s, last_s = min(file.at_s for file in seeds), max(file.at_s for file in seeds)
        time.sleep(3 * EPOCH_S)
        return Moved(
            phases,
            need,
            self._files.longest_gap_s(OLD, self.source, begin_s, ends[-1]),
            calm_gap_s,
            self._files.bytes_of(NEW, self.other, first_s, last_s)
            / max(1, self._files.bytes_of(OLD, self.other, first_s, last_s)),
            predicted_s(state_bytes, need),
            state_bytes,
            sum(file.size_bytes for file in seeds),
            self._missing_rows(),
        )

    def _missing_rows(self) -> int:
        """How many of the rows that the source has given out are at no time in the successor's state; 0: none."""
        given = sum(task.rows_out for task in self.query.info().tasks if task.task_id == self.source)
        until_s = time.monotonic() + 60
        while self.held_rows() < given and time.monotonic() < until_s:
            time.sleep(0.5)
        return max(0, given - self.held_rows())

    def stop_and_copy(self, need: Need) -> Copied:
        """Pause the query, send as many bytes as its state has, and resume it."""
        begin_s = time.time()
        self.query.pause()
        _until(lambda: self.query.state() is selat.QueryState.PAUSED, "the pause")
        state_bytes = self.held_bytes()
        shipped_s = ship(state_bytes, beside_bytes_per_s=need.beside)
        resumed_s = time.time()
        self.query.resume()
        _until(lambda: bool(self._files.bytes_of(OLD, self.source, resumed_s, time.time())), "an epoch")
        time.sleep(2 * EPOCH_S)
        return Copied(state_bytes, shipped_s, self._files.longest_gap_s(OLD, self.source, begin_s, time.time()))


def ship(size_bytes: int, *, beside_bytes_per_s: float) -> float:
    """Send random bytes over a link like that of the move, and the other query's share beside; the seconds it took."""
    with socket.create_server(("127.0.0.1", 0)) as sink, ShapedLink(sink.getsockname()[1], LINK_BITS_PER_S) as link:
        threading.Thread(target=_drain, args=(sink,), daemon=True).start()
        over = threading.Event()
        paced = threading.Thread(target=_send_paced, args=(link.port, beside_bytes_per_s, over))
        paced.start()
        begun_s = time.monotonic()
        piece = os.urandom(1024 * 1024)
        with socket.create_connection(("127.0.0.1", link.port)) as connection:
            left = size_bytes
            while left > 0:
                connection.sendall(piece[:left])
                left -= len(piece)
            connection.shutdown(socket.SHUT_WR)
            connection.recv(1)
        took_s = time.monotonic() - begun_s
        over.set()
        paced.join()
        return took_s


def _drain(sink: socket.socket) -> None:
    while True:
        try:
            connection, _ = sink.accept()
        except OSError:
            return
        threading.Thread(target=_read_all, args=(connection,), daemon=True).start()


def _read_all(connection: socket.socket) -> None:
    with connection:
        while connection.recv(256 * 1024):
            pass


def _send_paced(port: int, bytes_per_s: float, over: threading.Event) -> None:
    piece = bytes(int(bytes_per_s / 20))
    with socket.create_connection(("127.0.0.1", port)) as connection:
        while piece and not over.wait(0.05):
            connection.sendall(piece)


def _until(condition: Callable[[], bool], what: str) -> None:
    limit_s = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > limit_s:
            raise TimeoutError(f"{what} did not come within {PATIENCE_S:.0f} s")
        time.sleep(0.25)


def measure(state_bytes: int) -> tuple[Copied, Moved]:
    with tempfile.TemporaryDirectory(prefix="selat-handover-", ignore_cleanup_errors=True) as directory:
        root = Path(directory)
        (root / "topology.yaml").write_text(TOPOLOGY)
        options = ClusterOptions(
            emulate_links=True,
            master_arguments=("--epoch-interval", f"{EPOCH_S * 1000:.0f}"),
            allow_paths=(root,),
        )
        with (
            DevCluster(root / "topology.yaml", root / "data", options) as cluster,
            selat.connect(cluster.address) as client,
            EpochFiles(root / "data") as files,
        ):
            client.sql("SET sharing = 'no-share'")
            scene = Scene(client, files, state_bytes)
            say("the state is there")
            need = scene.need()
            copied = scene.stop_and_copy(need)
            say(f"stop-and-copy: {copied.gap_s:.1f} s without an epoch")
            time.sleep(BEFORE_S)
            return copied, scene.move(scene.need())


def parts_of(copied: Copied, moved: Moved) -> list[str]:
    head = ["step", "seconds", "seed", "inputs, twice", "other query"]
    lines = [
        [
            phase.name,
            f"{phase.end_s - phase.begin_s:.1f}",
            *(f"{size / 1e6:.1f} MB" for size in (phase.seed_bytes, phase.input_bytes, phase.beside_bytes)),
        ]
        for phase in moved.phases
    ]
    way = ["way", "longest gap between source epochs", "in all"]
    return [
        f"State of {moved.state_bytes / 1e6:.0f} MB when it moves, epochs of {EPOCH_S:.0f} s, a link of 20 Mbit/s and "
        f"40 ms. Before the move, the other query sends {moved.need.beside * 8 / 1e6:.1f} Mbit/s over it, the source "
        f"gives out {moved.need.inputs * 8 / 1e6:.1f} Mbit/s at the merge's site.",
        table(
            way,
            [
                ["moved", f"{moved.gap_s:.2f} s ({moved.calm_gap_s:.2f} s before)", f"{moved.took_s:.0f} s"],
                [
                    "stop-and-copy",
                    f"{copied.gap_s:.1f} s",
                    f"{copied.shipped_s:.0f} s for {copied.shipped_bytes / 1e6:.0f} MB",
                ],
            ],
        ),
        table(head, lines),
        f"Inputs that crossed the link twice: {moved.duplicate_bytes / 1e6:.1f} MB, {moved.predicted_bytes / 1e6:.1f} "
        f"MB predicted. The seed: {moved.seed_bytes / 1e6:.1f} MB. While it was sent, {moved.data_share:.2f} of what "
        f"the other query gave out arrived.",
    ]


def main() -> int:
    parser = make_parser(__doc__)
    parser.add_argument("--state-mb", type=int, default=64, help="of state")
    arguments: argparse.Namespace = parser.parse_args()
    copied, moved = measure(arguments.state_mb * 1_000_000)
    findings = {
        "gap": moved.gap_s / EPOCH_S,
        "data": moved.data_share,
        "duplicates": abs(moved.duplicate_bytes / moved.predicted_bytes - 1),
        "whole": float(not moved.missing_rows),
    }
    publish("handover", "A merge moves while its query runs", parts_of(copied, moved), arguments.record, findings)
    return 0 if not moved.missing_rows else 1


if __name__ == "__main__":
    sys.exit(main())
