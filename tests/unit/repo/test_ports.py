"""Time, chance, threads and sockets reach the product by ports, which a simulated world takes.

A module may import what is listed here, for the reason given. One that is new belongs behind a port: `machine.clock`,
`wire.transport`, `site_agent.base.posix`, the event loop's own time and threads, or a parameter.
"""

from __future__ import annotations

import ast

from tests.unit.repo.test_tree import ROOT, modules, names_used

PACKAGES = ("master", "site_agent", "contract", "wire", "machine")
WATCHED = frozenset({"random", "secrets", "socket", "subprocess", "threading", "time", "uuid"})

DEFAULTS = {
    "machine/clock.py": {"time"},
    "master/server.py": {"random", "secrets"},
    "site_agent/agent/loops.py": {"uuid"},
    "site_agent/agent/memory.py": {"threading", "time"},
    "site_agent/base/cpu.py": {"time"},
    "site_agent/base/posix.py": {"threading", "time"},
    "site_agent/exchange/outbound.py": {"time"},
    "site_agent/router/meter.py": {"time"},
    "site_agent/router/pacing.py": {"time"},
    "site_agent/router/pull.py": {"random", "time"},
    "wire/callers.py": {"time"},
}
"""The real thing behind a port or a parameter."""
FOR_PEOPLE = {
    "machine/description.py": {"time"},
    "master/base/logs.py": {"time"},
    "master/base/timing.py": {"time"},
    "master/store/database.py": {"time"},
}
"""Measures what only logs, metrics and `selat doctor` show."""
LOCKS = dict.fromkeys(
    (
        "machine/faults.py",
        "site_agent/base/waiters.py",
        "site_agent/channels/log.py",
        "site_agent/channels/readers.py",
        "site_agent/channels/reuse.py",
        "site_agent/channels/store.py",
        "site_agent/connectors/files/prepared.py",
        "site_agent/ingest/kept.py",
        "site_agent/ingest/log.py",
        "site_agent/ingest/room.py",
        "site_agent/router/router.py",
        "wire/channels.py",
        "wire/files.py",
    ),
    frozenset({"threading"}),
)
"""Locks alone: threads that are simulated run their work in one piece, so that no lock is waited for."""
MACHINE = {
    "machine/bearer.py": {"secrets"},
    "machine/java.py": {"subprocess"},
    "machine/loopback.py": {"socket"},
    "machine/metrics.py": {"socket"},
    "site_agent/__main__.py": {"threading"},
    "site_agent/engine/cluster/file_server.py": {"secrets", "socket", "threading"},
    "site_agent/engine/functions.py": {"subprocess"},
    "site_agent/engine/jvm/lifeline.py": {"subprocess", "threading"},
    "site_agent/engine/pyworker.py": {"time"},
    "site_agent/engine/spark.py": {"threading"},
    "site_agent/engine/warm.py": {"threading"},
    "site_agent/probes/beside.py": {"socket", "time"},
    "site_agent/probes/bulk.py": {"socket", "time"},
    "site_agent/probes/iperf.py": {"socket"},
    "site_agent/probes/service.py": {"secrets", "socket", "time"},
    "site_agent/probes/train.py": {"socket", "time"},
}
"""The machine itself: processes, sockets of metrics and probes, the JVM. No simulated world has them."""


def test_only_these_modules_reach_time_chance_threads_and_sockets_by_themselves() -> None:
    found = {
        str(path.relative_to(ROOT)): used
        for package in PACKAGES
        for path in modules(package)
        if (used := WATCHED & set(names_used(ast.parse(path.read_text()))))
    }
    assert found == DEFAULTS | FOR_PEOPLE | LOCKS | MACHINE
