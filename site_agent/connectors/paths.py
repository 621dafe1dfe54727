"""The directories of this machine that queries may read and write."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from site_agent.base.errors import PathRefusedError


@dataclass(frozen=True, slots=True)
class AllowedPaths:
    """The paths that lead into one of these directories once all links are followed."""

    directories: tuple[Path, ...]

    @classmethod
    def of(cls, named: Iterable[Path], *, insecure: bool) -> AllowedPaths:
        """The named directories; without any, the working directory, or none if that is `/` or the agent insecure."""
        directories = tuple(path.absolute() for path in named)
        working = Path.cwd()
        if directories or insecure or working == Path("/"):
            return cls(directories)
        return cls((working,))

    def check(self, path: Path | str) -> None:
        """Raises PathRefusedError when the path, with links followed as they are now, leads out of the directories."""
        real = os.path.realpath(path)
        if any(_is_below(real, os.path.realpath(directory)) for directory in self.directories):
            return
        leads = "" if real == os.fspath(path) else f" leads to {real}, which"
        allowed = ", ".join(map(str, self.directories)) or "none"
        directory = os.path.dirname(real) if os.path.isfile(real) else real
        raise PathRefusedError(
            f"path {os.fspath(path)!r}{leads} is outside of the directories that this agent allows: {allowed}",
            hint=f"start the agent with --allow-path {directory}, if queries may use what is there",
        )

    def check_files(self, paths: Iterable[str]) -> None:
        """The same for many files. The links of a directory that several files share are followed once."""
        checked: set[str] = set()
        for path in paths:
            directory = os.path.dirname(path)
            if os.path.islink(path):
                self.check(path)
            elif directory not in checked:
                self.check(directory)
                checked.add(directory)


ANYWHERE = AllowedPaths((Path("/"),))


def _is_below(path: str, directory: str) -> bool:
    return os.path.commonpath((path, directory)) == directory
