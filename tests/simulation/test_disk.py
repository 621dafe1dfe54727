"""The simulated disk answers as the machine's own does, and a power loss leaves what POSIX allows."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from site_agent.base import posix
from site_agent.base.durable import write_atomically
from tests.simulation.disk import Disk
from tests.simulation.loop import PROCESS, Process, ProcessKilled
from tests.simulation.paths import SimulatedCalls, on

NAMES = st.sampled_from(["a", "b", "a/c", "b/c", "a/c/d"])
CONTENT = st.binary(max_size=12)
STEPS = st.one_of(
    st.tuples(st.just("mkdir"), NAMES, st.booleans()),
    st.tuples(st.just("write"), NAMES, CONTENT),
    st.tuples(st.just("append"), NAMES, CONTENT),
    st.tuples(st.just("overwrite"), NAMES, CONTENT),
    st.tuples(st.just("create"), NAMES, CONTENT),
    st.tuples(st.just("read"), NAMES, st.none()),
    st.tuples(st.just("list"), NAMES, st.none()),
    st.tuples(st.just("size"), NAMES, st.none()),
    st.tuples(st.just("unlink"), NAMES, st.booleans()),
    st.tuples(st.just("rmdir"), NAMES, st.none()),
    st.tuples(st.just("replace"), NAMES, NAMES),
    st.tuples(st.just("remove_tree"), NAMES, st.none()),
)


@pytest.fixture(autouse=True)
def _simulated() -> Iterator[None]:
    with posix.taken(SimulatedCalls()):
        yield


def step(root: Path, what: str, name: str, argument: object, calls: posix.Calls) -> object:
    """The outcome of one step: a value, or the number of the error."""
    path = root / name
    try:
        match what:
            case "mkdir":
                path.mkdir(parents=bool(argument), exist_ok=bool(argument))
            case "write":
                path.write_bytes(argument)  # type: ignore[arg-type]
            case "append" | "overwrite" | "create":
                mode = {"append": "ab", "overwrite": "r+b", "create": "xb"}[what]
                with path.open(mode) as file:
                    file.write(argument)
            case "read":
                return path.read_bytes()
            case "list":
                return sorted(child.name for child in path.iterdir())
            case "size":
                return path.stat().st_size if path.is_file() else path.exists()
            case "unlink":
                path.unlink(missing_ok=bool(argument))
            case "rmdir":
                path.rmdir()
            case "replace":
                path.replace(root / str(argument))
            case "remove_tree":
                calls.remove_tree(path)
    except OSError as error:
        return error.errno
    return None


@given(st.lists(STEPS, max_size=25))
@settings(max_examples=150)
def test_it_answers_as_the_file_system_of_the_machine(steps: list[tuple[str, str, object]]) -> None:
    simulated = on(Disk(Random(1)))
    with TemporaryDirectory() as made:
        for what, name, argument in steps:
            real = step(Path(made), what, name, argument, posix.Calls())
            assert step(simulated, what, name, argument, SimulatedCalls()) == real, (what, name, argument)


def test_a_process_that_ends_leaves_what_it_has_written_and_not_what_it_has_buffered() -> None:
    root = on(Disk(Random(1)))
    file = (root / "log").open("w")
    file.write("told")
    file.flush()
    file.write("not told")
    assert (root / "log").read_text() == "told"


@pytest.mark.parametrize("seed", range(40))
def test_a_power_loss_keeps_what_was_synced(seed: int) -> None:
    disk = Disk(Random(seed))
    root = on(disk)
    (root / "d").mkdir()
    write_atomically(root / "d" / "state", b"old")
    with suppress(OSError):
        (root / "d" / "later").write_bytes(b"never synced")
        (root / "d" / "state.tmp").write_bytes(b"new")
        (root / "d" / "state.tmp").replace(root / "d" / "state")
    disk.lose_power()
    assert (root / "d" / "state").read_bytes() in (b"old", b"", b"n", b"ne", b"new", b"n\0\0", b"ne\0", b"\0\0\0")


def test_a_power_loss_has_every_outcome_that_is_allowed() -> None:
    left = set()
    for seed in range(200):
        disk = Disk(Random(seed))
        root = on(disk)
        (root / "file").write_bytes(b"ab")
        posix.sync_directory(root)
        (root / "file").replace(root / "renamed")
        (root / "second").write_bytes(b"")
        disk.lose_power()
        left.add((tuple(sorted(path.name for path in root.iterdir())), next(root.glob("*e*")).stat().st_size))
    names = {names for names, _ in left}
    assert names == {("file",), ("file", "renamed"), ("renamed",), ("renamed", "second")}
    assert {size for _, size in left} == {0, 1, 2}


def test_changes_of_directories_are_lost_latest_first() -> None:
    for seed in range(50):
        disk = Disk(Random(seed))
        root = on(disk)
        for number in range(5):
            (root / str(number)).mkdir()
        disk.lose_power()
        left = sorted(int(path.name) for path in root.iterdir())
        assert left == list(range(len(left)))


def test_a_full_disk_takes_nothing_and_gives_everything() -> None:
    now_s = 0.0
    disk = Disk(Random(1), lambda: now_s)
    root = on(disk)
    write_atomically(root / "state", b"old")
    disk.fill(5.0)
    with pytest.raises(OSError, match="No space") as found:
        write_atomically(root / "state", b"new" * 2000)
    assert found.value.errno == errno.ENOSPC
    assert (root / "state").read_bytes() == b"old"
    assert [path.name for path in root.iterdir()] == ["state"]
    now_s = 5.0
    write_atomically(root / "state", b"new")


def test_a_dead_process_changes_nothing() -> None:
    disk, process = Disk(Random(1)), Process("dead")
    root = on(disk)
    process.alive = False
    with pytest.raises(ProcessKilled):
        process.context().run((root / "made").mkdir)
    assert not (root / "made").exists()
    assert PROCESS.get(None) is None


def test_mapped_bytes_outlive_the_process() -> None:
    root = on(Disk(Random(1)))
    file = (root / "marks").open("w+b")
    file.write(bytes(8))
    file.flush()
    mapped = posix.mapped(file)
    mapped[3] = 1
    mapped.resize(10)
    assert (root / "marks").read_bytes() == b"\0\0\0\1\0\0\0\0\0\0"
