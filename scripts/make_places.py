"""Writes terraform/aws/places.tf, a provider and its modules for each place: `make_places.py [--check]`.

Terraform's providers cannot be made in a loop, and a resource of the AWS provider before version 6 has its region from
its provider. So there is a fixed number of places, each with a provider; a region takes one by its number. For more
than eight, change `PLACES` here, and the number in variables.tf and main.tf.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

FILE = Path(__file__).parents[1] / "terraform" / "aws" / "places.tf"
PLACES = 8

HEAD = """\
# Written by scripts/make_places.py, which says why: a provider and its modules for each place.
"""

PLACE = """
provider "aws" {
  alias  = "place_@"
  region = local.named[@]

  default_tags {
    tags = local.tags
  }
}

module "site_@" {
  source     = "../modules/aws-site"
  count      = local.taken[@] == null ? 0 : 1
  providers  = { aws = aws.place_@ }
  deployment = var.deployment
  region     = local.named[@]
  zone       = var.regions[local.named[@]].zone
  ami        = var.regions[local.named[@]].ami
  layout     = local.regions[local.named[@]]
  bundle     = local.bundle
  secrets    = local.secrets[local.named[@]]
  agent      = local.agents[local.named[@]]
  master     = lookup(local.masters, local.named[@], null)
}

module "request_@" {
  source     = "../modules/aws-peering-request"
  count      = local.taken[@] == null ? 0 : 1
  providers  = { aws = aws.place_@ }
  deployment = var.deployment
  region     = local.named[@]
  networks   = local.networks
}

module "accept_@" {
  source          = "../modules/aws-peering-accept"
  count           = local.taken[@] == null ? 0 : 1
  providers       = { aws = aws.place_@ }
  deployment      = var.deployment
  region          = local.named[@]
  cidrs           = local.cidrs
  connections     = local.connections
  tables          = local.named[@] == var.master.region ? ["front", "inside"] : ["inside"]
  route_table_ids = local.made[local.named[@]].route_table_ids
}
"""

FOOT = """
locals {{
  sites = concat(
{sites}
  )
  requests = concat([{{}}],
{requests}
  )
}}
"""


def document() -> str:
    """The file's text."""
    sites = ",\n".join(f"    module.site_{place}" for place in range(PLACES))
    requests = ",\n".join(f"    module.request_{place}[*].connections" for place in range(PLACES))
    places = [PLACE.replace("@", str(place)) for place in range(PLACES)]
    return "".join([HEAD, *places, FOOT.format(sites=sites, requests=requests)])


def main() -> int:
    """Exit code: 1 when the file is not up to date and only checked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit code 1 when the file is not up to date"
    )
    text = document()
    if parser.parse_args().check:
        if FILE.exists() and FILE.read_text() == text:
            return 0
        print(f"{FILE.name} is not up to date: run python scripts/make_places.py")
        return 1
    FILE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
