"""Topology files that come with the package, and the sites of any."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from selat.dev.errors import DevError

if TYPE_CHECKING:
    from planner.topology import Topology

_PACKAGED = Path(__file__).with_name("topologies")

THREE_REGIONS = _PACKAGED / "three-regions.yaml"
"""What `selat dev` runs when nothing else is asked for."""

NYC = _PACKAGED / "nyc.yaml"
"""What the demo runs."""


def read_topology(path: Path) -> Topology:
    """The topology in a YAML file. Raises DevError when it cannot be read or makes no sense."""
    from planner.errors import PlannerError  # servers are loaded only when a cluster is started
    from planner.topology import parse_topology

    try:
        return parse_topology(yaml.safe_load(path.read_text()))
    except OSError as error:
        raise DevError.of(
            f"cannot read topology {path}: {error.strerror}", hint="give --topology the path of a YAML file"
        ) from None
    except yaml.YAMLError as error:
        raise DevError.of(f"topology {path} is not YAML: {error}", hint=f"compare with {THREE_REGIONS}") from None
    except PlannerError as error:
        raise DevError.of(f"topology {path}: {error}", hint=f"compare with {THREE_REGIONS}") from None
