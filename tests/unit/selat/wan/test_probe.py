"""The trial of a backend says why it fails."""

from __future__ import annotations

import pytest

from selat.wan.probe import uml_panic

LOG = """Core dump limits :
mmapper_init - find_iomem failed
Run /bin/busybox as init process
userspace - ptrace set fp regs failed, errno = 14

Kernel panic - not syncing: Attempted to kill init! exitcode=0x0000000b
CPU: 0 PID: 1 Comm: busybox Not tainted 6.1.176 #1
"""


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        (LOG, "userspace - ptrace set fp regs failed, errno = 14"),
        ("", "its log has no panic"),
        ("x\n", "its log has no panic"),
    ],
)
def test_why_a_user_mode_linux_died(log: str, reason: str) -> None:
    assert uml_panic(log) == f"User-Mode Linux dies: {reason}"
