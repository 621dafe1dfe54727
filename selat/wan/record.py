"""Records of emulations, below /run: a restart of the machine removes them together with the namespaces."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from selat.local.files import read_json, write_json
from selat.local.identity import ProcessIdentity
from selat.wan.errors import WanError
from selat.wan.layout import Layout
from selat.wan.links import LinkState, Pair

RUN = Path("/run/selat-wan")


@dataclass(frozen=True, slots=True)
class Record:
    """One emulation."""

    layout: Layout
    backend: str
    topology: str
    """The topology file from which it was made."""
    slots: Mapping[str, int]
    original: Mapping[Pair, LinkState]
    """The links as the topology file says."""
    links: Mapping[Pair, LinkState]
    """The links as they are now."""
    cpus_per_slot: float | None = None
    """None: sites are not limited to the CPUs of their slots."""
    owner: ProcessIdentity | None = None
    """The process for which it was made; after its death the emulation may be removed. None: it stays until it is
    removed."""


class Records:
    """A directory for each emulation."""

    def __init__(self, root: Path = RUN) -> None:
        self._root = root

    def directory(self, name: str) -> Path:
        return self._root / name

    def find(self, name: str) -> Record | None:
        content = read_json(self._file(name))
        if content is None:
            return None
        layout = Layout(name, content["number"], tuple(content["slots"]), content["gateway"])
        return Record(
            layout=layout,
            backend=content["backend"],
            topology=content["topology"],
            slots=content["slots"],
            original=_links(content["original"]),
            links=_links(content["links"]),
            cpus_per_slot=content["cpus_per_slot"],
            owner=ProcessIdentity(**owner) if (owner := content["owner"]) is not None else None,
        )

    def all(self) -> tuple[Record, ...]:
        """All records, ordered by name."""
        names = sorted(path.parent.name for path in self._root.glob("*/state.json"))
        return tuple(record for name in names if (record := self.find(name)) is not None)

    def write(self, record: Record) -> None:
        """Replaces the file in one step."""
        layout = record.layout
        content = {
            "number": layout.number,
            "gateway": layout.gateway,
            "slots": dict(record.slots),
            "backend": record.backend,
            "topology": record.topology,
            "original": _plain(record.original),
            "links": _plain(record.links),
            "cpus_per_slot": record.cpus_per_slot,
            "owner": asdict(record.owner) if record.owner is not None else None,
        }
        write_json(self._file(layout.name), content)

    def forget(self, name: str) -> None:
        shutil.rmtree(self.directory(name), ignore_errors=True)

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Within the block, no other process creates, changes or removes emulations."""
        self._root.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self._root / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def free_number(self) -> int:
        """A number that no emulation uses. Raises WanError when there is none."""
        taken = {record.layout.number for record in self.all()}
        free = next((number for number in range(256) if number not in taken), None)
        if free is None:
            raise WanError.of("256 WANs are up already", hint="`selat wan down` those that are not needed")
        return free

    def _file(self, name: str) -> Path:
        return self.directory(name) / "state.json"


def _plain(links: Mapping[Pair, LinkState]) -> list[list[object]]:
    return [[source, target, link.to_json()] for (source, target), link in links.items()]


def _links(content: list[list[object]]) -> dict[Pair, LinkState]:
    found: dict[Pair, LinkState] = {}
    for source, target, figures in content:
        assert isinstance(figures, dict)
        found[str(source), str(target)] = LinkState.from_json(figures)
    return found
