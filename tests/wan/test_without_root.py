"""Who may make no namespaces is told so, and what to do instead."""

from __future__ import annotations

import os
import subprocess

import pytest

from tests.wan.lab import environment, selat_command


@pytest.mark.parametrize(
    "command", [["wan", "up"], ["wan", "down"], ["wan", "backends"], ["dev", "--netns", "--data", "unused"]]
)
def test_it_needs_root_and_says_so(command: list[str]) -> None:
    # In a user namespace without a mapping, root is nobody.
    outside = ["unshare", "--user"] if os.geteuid() == 0 else []
    if outside and subprocess.run([*outside, "true"], capture_output=True, check=False).returncode:
        pytest.skip("root cannot be somebody else here: no user namespaces")
    done = subprocess.run(
        [*outside, *selat_command(*command)], capture_output=True, text=True, env=environment(), check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error[WAN_EMULATION]: an emulated WAN of namespaces needs root\n")
    assert "selat dev --emulate-links" in done.stderr
    assert "Traceback" not in done.stderr
