"""Files of sinks. Unlike the agent's state, other users may read them: they get the rights of the user's umask."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from site_agent.base.files import Files


class UserFiles(Files):
    """Creates files and directories with a given umask, whatever the umask of the process is."""

    def __init__(self, umask: int) -> None:
        self._umask = umask

    def make_directory(self, path: Path) -> None:
        super().make_directory(path)
        path.chmod(0o777 & ~self._umask)

    def write(self, path: Path, parts: Sequence[bytes], *, sync: bool) -> None:
        super().write(path, parts, sync=sync)
        path.chmod(0o666 & ~self._umask)
