"""What is asked of the machine about an emulated WAN, while that comes and goes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from selat.wan.emulation import Emulations
from selat.wan.errors import WanError
from selat.wan.record import Record, Records
from tests.unit.selat.wan.build import LAYOUT, LINKS, NotedSystem

RECORD = Record(LAYOUT, "tun", "three-regions", dict.fromkeys(LAYOUT.sites, 1), LINKS, LINKS)


@dataclass(slots=True)
class NoProcesses(NotedSystem):
    """`ip netns pids` fails, as it does for a namespace that is not there."""

    def output(self, command: Sequence[str]) -> str:
        if "pids" in command:
            raise WanError.of("Cannot open network namespace", hint="")
        return '[{"name": "selat-lab.us"}]'


def test_a_site_whose_namespace_is_not_made_yet_has_no_processes(tmp_path: Path) -> None:
    emulations = Emulations(NoProcesses(), Records(tmp_path))
    assert emulations.processes(RECORD, "eu") == ()
    with pytest.raises(WanError, match="Cannot open"):
        emulations.processes(RECORD, "us")
