"""Makes a topology file from the outputs of the Terraform module (`terraform output -json`)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from selat.local.errors import DevError

OUTPUT = "topology"
"""The name of the output that has the topology."""

_HEAD = "# From the outputs of Terraform, by `selat topology from-terraform`.\n"
_HINT = "in the module's directory, after `terraform apply`: terraform output -json | selat topology from-terraform"
_KEYS = ("gateway", "sites", "links", "default_link")


def topology_of_outputs(content: bytes) -> str:
    """The text of the topology file.

    Args:
        content: all outputs, or the output `topology` alone, as JSON.

    Raises:
        DevError: it is no JSON, has no topology, or the topology makes no sense.
    """
    topology = _topology(content)
    lines = [f"gateway: {_flow(topology['gateway'])}\n"] if topology.get("gateway") else []
    lines.append("sites:\n")
    lines += [f"  {_flow(name)}: {_flow(site)}\n" for name, site in _sites(topology).items()]
    if links := topology.get("links"):
        lines.append("links:               # latency is one way\n")
        lines += [f"  - {_flow(link)}\n" for link in links]
    if default := topology.get("default_link"):
        lines.append(f"default_link: {_flow(default)}\n")
    text = _HEAD + "".join(lines)
    _check(text)
    return text


def _topology(content: bytes) -> Mapping[str, Any]:
    try:
        data = json.loads(content)
    except ValueError as error:
        raise DevError.of(f"the outputs of Terraform are no JSON: {error}", hint=_HINT) from None
    output = data.get(OUTPUT) if isinstance(data, Mapping) else None
    # All outputs have type and value each; one that was requested alone is the value itself.
    found = output.get("value") if isinstance(output, Mapping) else data
    if not isinstance(found, Mapping) or not set(found) <= set(_KEYS) or "sites" not in found:
        raise DevError.of(f"the outputs of Terraform have no {OUTPUT} with sites", hint=_HINT)
    return found


def _sites(topology: Mapping[str, Any]) -> Mapping[str, Any]:
    sites = topology["sites"]
    if not isinstance(sites, Mapping):
        raise DevError.of(f"sites of the output {OUTPUT} are {str(sites)[:60]}", hint=_HINT)
    return sites


def _flow(value: object) -> str:
    """The value as YAML on one line."""
    text: str = yaml.safe_dump(value, default_flow_style=True, sort_keys=False, width=float("inf"))
    return text.removesuffix("...\n").strip()


def _check(text: str) -> None:
    from selat.local.topology import topology_of_text  # it loads the planner

    topology_of_text(text.encode(), Path(f"the output {OUTPUT}"))
