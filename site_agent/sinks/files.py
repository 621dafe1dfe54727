"""Files of sinks are for their readers: they have the rights that the user's umask leaves, unlike the agent's state."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from site_agent.channels.files import Files


class UserFiles(Files):
    """Makes files and directories by a umask of its own, whatever the process's is."""

    def __init__(self, umask: int) -> None:
        self._umask = umask

    def make_directory(self, path: Path) -> None:
        super().make_directory(path)
        path.chmod(0o777 & ~self._umask)

    def write(self, path: Path, parts: Sequence[bytes], *, sync: bool) -> None:
        super().write(path, parts, sync=sync)
        path.chmod(0o666 & ~self._umask)
