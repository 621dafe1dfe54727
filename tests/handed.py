"""Files that root hands to a service, as Kubernetes does with secrets; needs root."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.needs import Lack, Need

SERVICE = 10001
"""User and group of the service."""

ROOT_LACK = None if os.geteuid() == 0 else Lack(Need.ROOT, "only it can hand files to a service")


@contextmanager
def handed(files: Path) -> Iterator[Path]:
    """A directory with the same files, root's and readable for the service's group.

    It is in no directory of pytest's: the service could not pass through those.
    """
    with tempfile.TemporaryDirectory() as root:
        directory = shutil.copytree(files, Path(root) / "handed")
        for path, mode in ((Path(root), 0o710), (directory, 0o750), *((file, 0o440) for file in directory.iterdir())):
            os.chown(path, 0, SERVICE)
            path.chmod(mode)
        yield directory


@contextmanager
def as_service() -> Iterator[None]:
    """The block runs with the rights of the service."""
    os.setegid(SERVICE)
    os.seteuid(SERVICE)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
