"""How Spark's readers come to files that lie at the agent: by their paths, or from a server at the driver."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol
from urllib.parse import unquote, urlsplit


class FileAccess(Protocol):
    """Used by many threads at once."""

    @property
    def remote(self) -> bool:
        """Whether executors do not see the agent's disk: they cannot write to it either."""
        ...

    def offered(self, paths: Sequence[str]) -> AbstractContextManager[tuple[str, ...]]:
        """What to give to a reader for these files, in their order; good until the context ends."""
        ...

    def path_of(self, uri: str) -> str:
        """The path of an offered file that Spark names by its URI."""
        ...


class LocalFiles:
    """Executors run on this machine, in the driver's JVM."""

    remote = False

    @contextmanager
    def offered(self, paths: Sequence[str]) -> Iterator[tuple[str, ...]]:
        """See `FileAccess.offered`."""
        yield tuple(paths)

    def path_of(self, uri: str) -> str:
        """See `FileAccess.path_of`."""
        return unquote(urlsplit(uri).path)
