"""The text of a topology file, read strictly: YAML lets a key come twice, and the last one would win in silence."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import yaml

from planner.values.errors import InvalidDefinitionError, Position
from planner.values.topology import Topology, parse_topology


def read_topology_text(content: bytes) -> Topology:
    """The topology that a file's content says.

    Raises:
        InvalidDefinitionError: it is no YAML, has a key twice, or is no topology; with its place where it has one.
    """
    try:
        # The loader derives from the safe one.
        value = yaml.load(content, Loader=_StrictLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = Position(mark.line + 1, mark.column + 1) if mark else None
        where = f", line {place.line}, column {place.column}" if place else ""
        raise InvalidDefinitionError(f"it is no YAML: {error.problem}{where}", position=place, hint=_HINT) from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise InvalidDefinitionError(f"it is no YAML: {_first_line(error)}", hint=_HINT) from error
    except (RecursionError, ValueError) as error:
        raise InvalidDefinitionError("it is no YAML of a topology: it cannot be read", hint=_HINT) from error
    return parse_topology(value)


_HINT = "It must be a file like sites: {us: {slots: 1}, eu: {slots: 1}}."


class _StrictLoader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else ""
            if name in seen:
                place = Position(key.start_mark.line + 1, key.start_mark.column + 1)
                raise InvalidDefinitionError(
                    f"{name} is there twice, the second time in line {place.line}, column {place.column}",
                    position=place,
                    found=name,
                    hint="Each site and each key is named once.",
                    ids={"key": name},
                )
            seen.add(name)
        return super().construct_mapping(node, deep=deep)


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
