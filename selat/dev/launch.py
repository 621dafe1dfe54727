"""Runs a program that dies with its parent: `python -I -S launch.py PARENT_PID PROGRAM ARGUMENT...`.

Run as a file, so that nothing of the package is loaded before the program takes this process over.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Run the program; does not return. Only on Linux does it die with its parent."""
    parent, program = int(arguments[0]), arguments[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        # The parent may have died before the previous line.
        if os.getppid() != parent:
            sys.exit(1)
    os.execvp(program[0], program)


if __name__ == "__main__":
    main(sys.argv[1:])
