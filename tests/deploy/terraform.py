"""A working copy of the Terraform module, pointed at an emulated cloud."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.deploy.tools import ROOT, providers, run

PLACES = 8

_PROVIDER = """
provider "aws" {{
  alias                       = "place_{place}"
  access_key                  = "test"
  secret_key                  = "test"
  s3_use_path_style           = true
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  skip_requesting_account_id  = true
  skip_region_validation      = true
}}
"""

IMAGE = "ami-12c6146b"
"""That of a machine; the emulator knows it in every region."""

VARIABLES: Mapping[str, Any] = {
    "deployment": "trial",
    "bundle": "tests/bundle.txt",
    "certificates": "tests/certificates",
    "master": {"region": "us-east-1"},
    "regions": {
        "us-east-1": {"place": 0, "slots": 4, "instance_type": "m7i.xlarge", "site": "us", "ami": IMAGE},
        "eu-central-1": {"place": 1, "slots": 2, "instance_type": "m7i.large", "site": "eu", "ami": IMAGE},
        "ap-northeast-1": {"place": 5, "slots": 2, "instance_type": "m7i.large", "site": "asia", "ami": IMAGE},
    },
    "client_cidrs": ["203.0.113.0/24"],
    "links": [{"from": "us-east-1", "to": "eu-central-1", "bandwidth": "400Mbit/s", "latency": "45ms", "both": True}],
    "tags": {"owner": "analytics"},
}


@dataclass(frozen=True, slots=True)
class Terraform:
    """Terraform in the root module's copy."""

    directory: Path
    environment: Mapping[str, str]

    def __call__(self, *words: str, check: bool = True) -> str:
        return run("terraform", *words, cwd=self.directory, env=self.environment, check=check)

    def outputs(self) -> str:
        """All outputs, as JSON."""
        return self("output", "-json")


def working_copy(directory: Path, endpoint: str = "") -> Terraform:
    """The module in `directory`, initialised. With an endpoint, everything of it happens there."""
    shutil.copytree(ROOT / "terraform", directory, ignore=shutil.ignore_patterns(".terraform*", "*.tfstate*"))
    root = directory / "aws"
    (root / "terraform.tfvars.json").write_text(json.dumps(dict(VARIABLES)))
    environment = {
        "TF_IN_AUTOMATION": "1",
        "CHECKPOINT_DISABLE": "1",
        "TF_CLI_CONFIG_FILE": str(directory / "cli.tfrc"),
    }
    mirror = providers()
    assert mirror is not None
    (directory / "cli.tfrc").write_text(
        f'provider_installation {{\n  filesystem_mirror {{\n    path = "{mirror}"\n  }}\n}}\n'
    )
    if endpoint:
        text = "".join(_PROVIDER.format(place=place) for place in range(PLACES))
        (root / "emulator_override.tf").write_text(text)
        environment |= {
            "AWS_ENDPOINT_URL": endpoint,
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_REQUEST_CHECKSUM_CALCULATION": "when_required",
            "NO_PROXY": "127.0.0.1",
        }
    terraform = Terraform(root, environment)
    terraform("init", "-input=false", "-no-color")
    return terraform
