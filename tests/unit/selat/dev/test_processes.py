from __future__ import annotations

from pathlib import Path

import pytest

from selat.dev.placement import Loopback
from selat.dev.processes import ClusterOptions, ClusterProcesses
from selat.dev.state import DataDirectory
from selat.local.topology import NYC


class OwnNetwork(Loopback):
    own_network = True


CLOSED = ["--python-functions", "refuse"]
OPEN = ["--python-functions", "allow"]


@pytest.mark.parametrize(
    ("options", "working", "master", "agent"),
    [
        (ClusterOptions(), "in", OPEN, [*OPEN, "--allow-path", "in"]),
        (ClusterOptions(), "/", OPEN, OPEN),
        (
            ClusterOptions(allow_paths=(Path("/a"), Path("b"))),
            "in",
            OPEN,
            [*OPEN, "--allow-path", "/a", "--allow-path", "in/b"],
        ),
        (ClusterOptions(insecure=True), "in", ["--insecure", *CLOSED], ["--insecure", *CLOSED]),
        (ClusterOptions(insecure=True, python_functions="allow"), "in", ["--insecure", *OPEN], ["--insecure", *OPEN]),
        (
            ClusterOptions(placement=OwnNetwork()),
            "in",
            ["--insecure", *OPEN],
            ["--insecure", *OPEN, "--allow-path", "in"],
        ),
    ],
)
def test_what_master_and_agents_are_told_to_open(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: ClusterOptions,
    working: str,
    master: list[str],
    agent: list[str],
) -> None:
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / working)
    data = DataDirectory(tmp_path / "data")
    specs = ClusterProcesses(options, NYC, {"hub": 2, "ewr": 1}, data, "127.0.0.1:1").specs()
    told = [word.replace("in", f"{tmp_path}/in", 1) if word in ("in", "in/b") else word for word in agent]
    assert " ".join(master) in " ".join(specs[0].command)
    assert " ".join(told) in " ".join(specs[1].command)
    assert [spec.command.count("--allow-path") for spec in specs] == [0, agent.count("--allow-path")]
    assert [spec.command.count("--insecure") for spec in specs] == [
        master.count("--insecure"),
        agent.count("--insecure"),
    ]
