"""`python -m master backup` and `restore`: back up the master's state, and restore it into an empty directory."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from machine.private import make_private_umask
from master.backup import back_up, restore
from master.base.errors import MasterError

COMMANDS = ("backup", "restore")


def main(arguments: Sequence[str]) -> int:
    """Run the command. The exit code is 1 after an error, which is printed with a hint."""
    parsed = _parser().parse_args(arguments)
    make_private_umask()
    try:
        if parsed.command == "backup":
            said = back_up(parsed.data, parsed.to, now=datetime.now(UTC))
            done = f"{parsed.to}: state of cluster {said.cluster} at {said.made_at:%Y-%m-%d %H:%M:%S} UTC"
        else:
            said = restore(parsed.source, parsed.data)
            done = (
                f"{parsed.data}: state of cluster {said.cluster} as of {said.made_at:%Y-%m-%d %H:%M:%S} UTC\n"
                "what was declared and submitted since then is not in it"
            )
    except MasterError as error:
        return _refused(error.message, error.hint)
    except OSError as error:
        return _refused(str(error), "look at the disk and its rights")
    sys.stdout.write(f"{done}\n")
    return 0


def _refused(message: str, hint: str) -> int:
    sys.stderr.write(f"master: {message}\n" + (f"  hint: {hint}\n" if hint else ""))
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m master", description="Back up and restore the master's state.")
    commands = parser.add_subparsers(dest="command", required=True)
    backup = commands.add_parser("backup", help="copy the state to a file; the master may run meanwhile")
    backup.add_argument("--data", type=Path, required=True, metavar="DIR", help="the master's directory")
    backup.add_argument("--to", type=Path, required=True, metavar="FILE", help="a file that is not there yet")
    restoring = commands.add_parser("restore", help="put a backup into an empty directory; the master must not run")
    restoring.add_argument("--data", type=Path, required=True, metavar="DIR", help="an empty directory, or none yet")
    restoring.add_argument(
        "--from", dest="source", type=Path, required=True, metavar="FILE", help="what backup has written"
    )
    return parser
