"""The topology files of the package, and how topology files are read."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from selat.local.errors import DevError

if TYPE_CHECKING:
    from planner.values.topology import Topology

_PACKAGED = Path(__file__).with_name("topologies")

THREE_REGIONS = _PACKAGED / "three-regions.yaml"
"""The default topology of `selat dev`."""

NYC = _PACKAGED / "nyc.yaml"
"""The topology of the demo."""


def packaged() -> tuple[str, ...]:
    """The names of the package's topologies."""
    return tuple(sorted(path.stem for path in _PACKAGED.glob("*.yaml")))


def topology_file(text: str) -> Path:
    """The file that a user names, or the package's topology of that name."""
    path = Path(text)
    if not path.exists() and text in packaged():
        return _PACKAGED / f"{text}.yaml"
    return path


def read_topology(path: Path) -> Topology:
    """The topology in a YAML file. Raises DevError when it cannot be read or makes no sense."""
    try:
        return topology_of_text(path.read_bytes(), path)
    except OSError as error:
        raise DevError.of(
            f"cannot read topology {path}: {error.strerror}",
            hint=f"give the path of a YAML file, or one of {', '.join(packaged())}",
        ) from None


def topology_of_text(content: bytes, name: Path) -> Topology:
    """The topology in the content of the file `name`. Raises DevError when it is invalid."""
    from planner.values.errors import PlannerError  # servers are loaded only when a cluster is started
    from planner.values.topology_text import read_topology_text

    try:
        return read_topology_text(content)
    except PlannerError as error:
        hint = f"{error.hint} Compare with {THREE_REGIONS}".lstrip()
        raise DevError.of(f"topology {name}: {error}", hint=hint) from None
