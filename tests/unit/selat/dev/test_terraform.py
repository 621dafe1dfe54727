from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from selat.cli import cli
from selat.dev.terraform import topology_of_outputs
from selat.local.errors import DevError
from selat.local.topology import read_topology, topology_of_text

TOPOLOGY = {
    "gateway": "us",
    "sites": {"us": {"slots": 4, "address": "10.64.1.10:7411"}, "eu": {"slots": 2, "address": "10.65.1.10:7411"}},
    "links": [{"bandwidth": "400Mbit/s", "both": True, "from": "us", "latency": "45ms", "to": "eu"}],
    "default_link": {"bandwidth": "500Mbit/s", "latency": "50ms"},
}
OUTPUTS = {
    "client_address": {"sensitive": False, "type": "string", "value": "198.51.100.7:7410"},
    "topology": {"sensitive": False, "type": ["object", {}], "value": TOPOLOGY},
}


@pytest.mark.parametrize("outputs", [OUTPUTS, TOPOLOGY])
def test_all_outputs_or_the_one(outputs: object) -> None:
    text = topology_of_outputs(json.dumps(outputs).encode())
    topology = topology_of_text(text.encode(), Path("it"))
    assert topology.gateway == "us"
    assert {name: (site.slots, site.address) for name, site in topology.sites.items()} == {
        "us": (4, "10.64.1.10:7411"),
        "eu": (2, "10.65.1.10:7411"),
    }
    link = topology.links["eu", "us"]
    assert (link.bandwidth_bytes_per_s, link.latency.total_seconds()) == (50e6, 0.045)


def test_the_file_is_made_to_be_read() -> None:
    assert topology_of_outputs(json.dumps(OUTPUTS).encode()).splitlines() == [
        "# From the outputs of Terraform, by `selat topology from-terraform`.",
        "gateway: us",
        "sites:",
        "  us: {slots: 4, address: '10.64.1.10:7411'}",
        "  eu: {slots: 2, address: '10.65.1.10:7411'}",
        "links:               # latency is one way",
        "  - {bandwidth: 400Mbit/s, both: true, from: us, latency: 45ms, to: eu}",
        "default_link: {bandwidth: 500Mbit/s, latency: 50ms}",
    ]


@pytest.mark.parametrize(
    ("outputs", "said"),
    [
        ("", "no JSON"),
        ("[]", "have no topology with sites"),
        ("{}", "have no topology with sites"),
        ('{"client_address": {"value": "x"}}', "have no topology with sites"),
        ('{"topology": {"value": null}}', "have no topology with sites"),
        ('{"sites": []}', r"sites of the output topology are \[\]"),
        ('{"sites": {}}', "topology the output topology: sites is nothing"),
        ('{"sites": {"us": {"slots": 0}}}', "topology the output topology: sites.us.slots is 0"),
        ('{"sites": {"us": {"slots": 1}}, "gateway": "eu"}', "topology the output topology: gateway is eu"),
    ],
)
def test_what_is_no_topology(outputs: str, said: str) -> None:
    with pytest.raises(DevError, match=said):
        topology_of_outputs(outputs.encode())


def test_the_command(tmp_path: Path) -> None:
    target = tmp_path / "regions.yaml"
    command = ["topology", "from-terraform"]
    shown = CliRunner().invoke(cli, command, input=json.dumps(OUTPUTS))
    written = CliRunner().invoke(cli, [*command, "--to", str(target)], input=json.dumps(OUTPUTS))
    assert (shown.exit_code, written.exit_code) == (0, 0)
    assert target.read_text() == shown.stdout
    assert read_topology(target).gateway == "us"


def test_the_command_says_what_is_wrong(tmp_path: Path) -> None:
    refused = CliRunner().invoke(cli, ["topology", "from-terraform"], input="{}")
    assert refused.exit_code != 0
    assert "have no topology" in refused.stderr
    target = tmp_path / "absent" / "regions.yaml"
    unwritable = CliRunner().invoke(cli, ["topology", "from-terraform", "--to", str(target)], input=json.dumps(OUTPUTS))
    assert "cannot write" in unwritable.stderr
