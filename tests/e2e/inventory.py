"""What a running cluster holds, counted from outside and, by a hook in its Python processes, from inside.

The hook is a `sitecustomize` module on the children's import path: on SIGUSR1 a process writes how many objects of each
of our classes it holds. JVMs are asked by the attach protocol that `jcmd` speaks, which also collects garbage first.

Not counted: threads of pools (their number is bounded, the pools are counted), the connection to the JVM that each of
these threads has, errors, of which gRPC keeps those of a server's last calls, and heartbeats that are on their way.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sqlite3
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from selat.dev.cluster import DevCluster

HOOK = """
import asyncio, gc, json, os, re, signal, threading

COUNTED = (
    *("master.", "site_agent.", "planner.", "grpc.aio.", "pyspark.sql.", "concurrent.futures."),
    "py4j.clientserver.ClientServerConnection",
)

def _count(number, frame):
    gc.collect()
    counts = {}
    for thing in gc.get_objects():
        kind = type(thing)
        name = f"{kind.__module__}.{kind.__qualname__}"
        if isinstance(thing, asyncio.Task):
            code = getattr(thing.get_coro(), "cr_code", None)
            if thing.done() or code is None or not any(f"/{p}/" in code.co_filename for p in ("master", "site_agent")):
                continue
            name = "task " + code.co_qualname
        elif not name.startswith(COUNTED) or isinstance(thing, BaseException) or name.endswith(".UnaryUnaryCall"):
            continue
        counts[name] = counts.get(name, 0) + 1
    counts["threads of their own"] = sum(not re.search(r"_[0-9]+$", t.name) for t in threading.enumerate())
    path = os.path.join(os.environ["SELAT_INVENTORY"], f"{os.getpid()}.json")
    with open(path + ".tmp", "w") as file:
        json.dump(counts, file)
    os.replace(path + ".tmp", path)

if "SELAT_INVENTORY" in os.environ:
    signal.signal(signal.SIGUSR1, _count)
"""

_ANSWER_TIMEOUT_S = 60.0
_RANDOM = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9]{12,}")
"""What a JVM makes up for the names of its files."""

_JVM_CONNECTION = "py4j.clientserver.ClientServerConnection"
_JVM_CLASSES = (
    "org.apache.spark.sql.classic.SparkSession",
    "org.apache.spark.sql.internal.SessionState",
    "org.apache.spark.sql.catalyst.catalog.SessionCatalog",
    "org.apache.spark.sql.util.ExecutionListenerBus",
    "org.apache.spark.sql.execution.QueryExecution",
    "org.apache.spark.sql.classic.Dataset",
    "org.apache.spark.sql.classic.ObservationManager",
)


@dataclass(frozen=True, slots=True)
class Inventory:
    """Counts by what is counted, which must not grow; bytes by process, which must not grow without bound."""

    counts: Mapping[str, int]
    bytes: Mapping[str, int]

    def differences(self, other: Inventory) -> Mapping[str, tuple[int, int]]:
        """What is not the same in `other`: (here, there)."""
        names = sorted(self.counts.keys() | other.counts.keys())
        pairs = {name: (self.counts.get(name, 0), other.counts.get(name, 0)) for name in names}
        return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def hooked(directory: Path) -> Mapping[str, str]:
    """Environment for processes that are to be counted; `directory` takes the hook and its answers."""
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "sitecustomize.py").write_text(HOOK)
    path = os.pathsep.join(filter(None, [str(directory), os.environ.get("PYTHONPATH", "")]))
    return {"PYTHONPATH": path, "SELAT_INVENTORY": str(directory)}


def take(cluster: DevCluster, answers: Path) -> Inventory:
    """Count everything; garbage goes first, that of Python before that of the JVM, whose objects it may hold."""
    counts: Counter[str] = Counter()
    sizes: dict[str, int] = {}
    for name, pid in cluster.pids.items():
        family = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
        jvms = [p for p in family if p.name() == "java"]
        counts.update(f"{name}: process {kind}" for process in family if (kind := _kind(process, jvms)))
        objects = dict(_python_objects(pid, answers))
        counts[f"{name}: files open"] = family[0].num_fds() - objects.pop(_JVM_CONNECTION, 0)
        counts.update({f"{name}: {kind}": count for kind, count in objects.items()})
        for jvm in jvms:
            counts.update({f"{name}: jvm {k}": v for k, v in _jvm_objects(jvm.pid, sizes).items()})
            counts[f"{name}: jvm files open"] += _files_open(jvm)
        sizes[f"{name}: resident"] = family[0].memory_info().rss
    counts.update(_files(cluster.data.root))
    counts.update(_rows(cluster.data.root / "master" / "master.sqlite"))
    return Inventory(counts, sizes)


def _kind(process: psutil.Process, jvms: list[psutil.Process]) -> str | None:
    """What it runs, without what differs from start to start; None: not to be counted.

    The shell that becomes a JVM may leave a child behind, for which the JVM never waits.
    """
    try:
        if process.status() == psutil.STATUS_ZOMBIE and any(process.ppid() == jvm.pid for jvm in jvms):
            return None
        return process.name() if process.status() != psutil.STATUS_ZOMBIE else f"{process.name()} (zombie)"
    except psutil.NoSuchProcess:
        return None


def _python_objects(pid: int, answers: Path) -> Mapping[str, int]:
    answer = answers / f"{pid}.json"
    answer.unlink(missing_ok=True)
    os.kill(pid, signal.SIGUSR1)
    deadline = time.monotonic() + _ANSWER_TIMEOUT_S
    while not answer.exists():
        assert time.monotonic() < deadline, f"process {pid} does not count"
        time.sleep(0.02)
    counts: dict[str, int] = json.loads(answer.read_text())
    return counts


def _jvm_objects(pid: int, sizes: dict[str, int]) -> Mapping[str, int]:
    """Live instances of the classes that belong to a task's session; the live heap is put into `sizes`."""
    found: dict[str, int] = {}
    for line in _ask_jvm(pid, "GC.class_histogram").splitlines():
        words = line.split()
        if len(words) >= 4 and words[0].rstrip(":").isdigit() and words[3] in _JVM_CLASSES:
            found[words[3]] = int(words[1])
        elif words[:1] == ["Total"]:
            sizes[f"jvm {pid}: live heap"] = int(words[2])
    return found


def _ask_jvm(pid: int, command: str) -> str:
    """HotSpot's attach protocol: SIGQUIT makes the JVM open a socket when a file asks for it."""
    path = Path(f"/tmp/.java_pid{pid}")
    if not path.exists():
        request = Path(f"/proc/{pid}/cwd/.attach_pid{pid}")
        request.touch()
        try:
            os.kill(pid, signal.SIGQUIT)
            deadline = time.monotonic() + _ANSWER_TIMEOUT_S
            while not path.exists():
                assert time.monotonic() < deadline, f"JVM {pid} does not open its socket"
                time.sleep(0.05)
        finally:
            request.unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(_ANSWER_TIMEOUT_S)
        connection.connect(str(path))
        connection.sendall(b"\0".join([b"1", b"jcmd", command.encode(), b"", b"", b""]))
        answer = b""
        while part := connection.recv(65536):
            answer += part
    code, _, text = answer.decode().partition("\n")
    assert code == "0", answer[:500]
    return text


def _files_open(process: psutil.Process) -> int:
    """Regular files and sockets to others; a JVM's own pipes and polls come and go."""
    return len(process.open_files())


def _files(root: Path) -> Mapping[str, int]:
    """Files and directories of the sites, by the directory they lie in.

    Channels that are kept for clients have as many epochs as there happened to be; Spark makes up to 64 directories for
    its blocks, and no more.
    """
    found: Counter[str] = Counter()
    for path in root.joinpath("sites").rglob("*"):
        parts = path.relative_to(root).parts
        if path.suffix != ".epoch" and not (path.is_dir() and "local" in parts):
            found[f"files: {_RANDOM.sub('*', '/'.join(parts[:3]))}"] += 1
    return found


def _rows(state: Path) -> Mapping[str, int]:
    with sqlite3.connect(f"file:{state}?mode=ro", uri=True) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        # One more with each start of an agent, up to a limit that the store's own tests hold.
        tables.remove("incarnations")
        return {f"rows: {name}": db.execute(f"SELECT count(*) FROM {name}").fetchone()[0] for name in tables}
