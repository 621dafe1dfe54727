"""Memory as it is measured."""

from __future__ import annotations

import subprocess
import sys

from site_agent.agent.memory import FRESH_S, HeapUse, MemoryUse, SharedMemory, memory_use


def test_children_count_apart_from_the_process() -> None:
    alone = memory_use(HeapUse, sites=3)
    assert alone.agent_bytes > 0
    assert (alone.heap, alone.sites) == (HeapUse(), 3)
    command = [sys.executable, "-c", "print('ready', flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        with_child = memory_use(lambda: HeapUse(1, 2, 3), sites=1)
        child.communicate(b"\n")
    assert with_child.jvm_bytes > alone.jvm_bytes
    assert with_child.total_bytes == with_child.agent_bytes + with_child.jvm_bytes
    assert with_child.heap.used_bytes == 1


def test_all_sites_of_a_process_share_a_measurement_until_it_is_old() -> None:
    now_s, made = 0.0, 0

    def measure() -> MemoryUse:
        nonlocal made
        made += 1
        return MemoryUse(agent_bytes=made)

    memory = SharedMemory(measure, clock=lambda: now_s)
    assert [memory().agent_bytes for _ in range(3)] == [1, 1, 1]
    now_s = FRESH_S
    assert [memory().agent_bytes for _ in range(3)] == [2, 2, 2]
