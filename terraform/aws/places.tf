# Written by scripts/make_places.py, which says why: a provider and its modules for each place.

provider "aws" {
  alias  = "place_0"
  region = local.named[0]

  default_tags {
    tags = local.tags
  }
}

module "site_0" {
  source     = "../modules/aws-site"
  count      = local.taken[0] == null ? 0 : 1
  providers  = { aws = aws.place_0 }
  deployment = var.deployment
  region     = local.named[0]
  zone       = var.regions[local.named[0]].zone
  ami        = var.regions[local.named[0]].ami
  layout     = local.regions[local.named[0]]
  bundle     = local.bundle
  secrets    = local.secrets[local.named[0]]
  agent      = local.agents[local.named[0]]
  master     = lookup(local.masters, local.named[0], null)
}

module "request_0" {
  source     = "../modules/aws-peering-request"
  count      = local.taken[0] == null ? 0 : 1
  providers  = { aws = aws.place_0 }
  deployment = var.deployment
  region     = local.named[0]
  networks   = local.networks
}

module "accept_0" {
  source          = "../modules/aws-peering-accept"
  count           = local.taken[0] == null ? 0 : 1
  providers       = { aws = aws.place_0 }
  deployment      = var.deployment
  region          = local.named[0]
  cidrs           = local.cidrs
  connections     = local.connections
  tables          = local.named[0] == var.master.region ? ["front", "inside"] : ["inside"]
  route_table_ids = local.made[local.named[0]].route_table_ids
}

provider "aws" {
  alias  = "place_1"
  region = local.named[1]

  default_tags {
    tags = local.tags
  }
}

module "site_1" {
  source     = "../modules/aws-site"
  count      = local.taken[1] == null ? 0 : 1
  providers  = { aws = aws.place_1 }
  deployment = var.deployment
  region     = local.named[1]
  zone       = var.regions[local.named[1]].zone
  ami        = var.regions[local.named[1]].ami
  layout     = local.regions[local.named[1]]
  bundle     = local.bundle
  secrets    = local.secrets[local.named[1]]
  agent      = local.agents[local.named[1]]
  master     = lookup(local.masters, local.named[1], null)
}

module "request_1" {
  source     = "../modules/aws-peering-request"
  count      = local.taken[1] == null ? 0 : 1
  providers  = { aws = aws.place_1 }
  deployment = var.deployment
  region     = local.named[1]
  networks   = local.networks
}

module "accept_1" {
  source          = "../modules/aws-peering-accept"
  count           = local.taken[1] == null ? 0 : 1
  providers       = { aws = aws.place_1 }
  deployment      = var.deployment
  region          = local.named[1]
  cidrs           = local.cidrs
  connections     = local.connections
  tables          = local.named[1] == var.master.region ? ["front", "inside"] : ["inside"]
  route_table_ids = local.made[local.named[1]].route_table_ids
}

provider "aws" {
  alias  = "place_2"
  region = local.named[2]

  default_tags {
    tags = local.tags
  }
}

module "site_2" {
  source     = "../modules/aws-site"
  count      = local.taken[2] == null ? 0 : 1
  providers  = { aws = aws.place_2 }
  deployment = var.deployment
  region     = local.named[2]
  zone       = var.regions[local.named[2]].zone
  ami        = var.regions[local.named[2]].ami
  layout     = local.regions[local.named[2]]
  bundle     = local.bundle
  secrets    = local.secrets[local.named[2]]
  agent      = local.agents[local.named[2]]
  master     = lookup(local.masters, local.named[2], null)
}

module "request_2" {
  source     = "../modules/aws-peering-request"
  count      = local.taken[2] == null ? 0 : 1
  providers  = { aws = aws.place_2 }
  deployment = var.deployment
  region     = local.named[2]
  networks   = local.networks
}

module "accept_2" {
  source          = "../modules/aws-peering-accept"
  count           = local.taken[2] == null ? 0 : 1
  providers       = { aws = aws.place_2 }
  deployment      = var.deployment
  region          = local.named[2]
  cidrs           = local.cidrs
  connections     = local.connections
  tables          = local.named[2] == var.master.region ? ["front", "inside"] : ["inside"]
  route_table_ids = local.made[local.named[2]].route_table_ids
}

provider "aws" {
  alias  = "place_3"
  region = local.named[3]

  default_tags {
    tags = local.tags
  }
}

module "site_3" {
  source     = "../modules/aws-site"
  count      = local.taken[3] == null ? 0 : 1
  providers  = { aws = aws.place_3 }
  deployment = var.deployment
  region     = local.named[3]
  zone       = var.regions[local.named[3]].zone
  ami        = var.regions[local.named[3]].ami
  layout     = local.regions[local.named[3]]
  bundle     = local.bundle
  secrets    = local.secrets[local.named[3]]
  agent      = local.agents[local.named[3]]
  master     = lookup(local.masters, local.named[3], null)
}

module "request_3" {
  source     = "../modules/aws-peering-request"
  count      = local.taken[3] == null ? 0 : 1
  providers  = { aws = aws.place_3 }
  deployment = var.deployment
  region     = local.named[3]
  networks   = local.networks
}

module "accept_3" {
  source          = "../modules/aws-peering-accept"
  count           = local.taken[3] == null ? 0 : 1
  providers       = { aws = aws.place_3 }
  deployment      = var.deployment
  region          = local.named[3]
  cidrs           = local.cidrs
  connections     = local.connections
  tables          = local.named[3] == var.master.region ? ["front", "inside"] : ["inside"]
  route_table_ids = local.made[local.named[3]].route_table_ids
}

provider "aws" {
  alias  = "place_4"
  region = local.named[4]

  default_tags {
    tags = local.tags
  }
}

module "site_4" {
  source     = "../modules/aws-site"
  count      = local.taken[4] == null ? 0 : 1
  providers  = { aws = aws.place_4 }
  deployment = var.deployment
  region     = local.named[4]
  zone       = var.regions[local.named[4]].zone
  ami        = var.regions[local.named[4]].ami
  layout     = local.regions[local.named[4]]
  bundle     = local.bundle
  secrets    = local.secrets[local.named[4]]
  agent      = local.agents[local.named[4]]
  master     = lookup(local.masters, local.named[4], null)
}

module "request_4" {
  source     = "../modules/aws-peering-request"
  count      = local.taken[4] == null ? 0 : 1
  providers  = { aws = aws.place_4 }
  deployment = var.deployment
  region     = local.named[4]
  networks   = local.networks
}

module "accept_4" {
  source          = "../modules/aws-peering-accept"
  count           = local.taken[4] == null ? 0 : 1
  providers       = { aws = aws.place_4 }
  deployment      = var.deployment
  region          = local.named[4]
  cidrs           = local.cidrs
  connections     = local.connections
  tables          = local.named[4] == var.master.region ? ["front", "inside"] : ["inside"]
  route_table_ids = local.made[local.named[4]].route_table_ids
}

provider "aws" {
  alias  = "place_5"
  region = local.named[5]

  default_tags {
    tags = local.tags
  }
}

module "site_5" {
  source     = "../modules/aws-site"
  count      = local.taken[5] == null ? 0 : 1
  providers  = { aws = aws.place_5 }
  deployment = var.deployment
  region     = local.named[5]
  zone       = var.regions[local.named[5]].zone
  ami        = var.regions[local.named[5]].ami
  layout     = local.regions[local.named[5]]
  bundle     = local.bundle
  secrets    = local.secrets[local.named[5]]
  agent      = local.agents[local.named[5]]
  master     = lookup(local.masters, local.named[5], null)
}

module "request_5" {
  source     = "../modules/aws-peering-request"
  count      = local.taken[5] == null ? 0 : 1
  providers  = { aws = aws.place_5 }
  deployment = var.deployment
  region     = local.named[5]
  networks   = local.networks
}

module "accept_5" {
  source          = "../modules/aws-peering-accept"
  count           = local.taken[5] == null ? 0 : 1
  providers       = { aws = aws.place_5 }
  deployment      = var.deployment
  region          = local.named[5]
  cidrs           = local.cidrs
  connections     = local.connections
  tables          = local.named[5] == var.master.region ? ["front", "inside"] : ["inside"]
  route_table_ids = local.made[local.named[5]].route_table_ids
}

provider "aws" {
  alias  = "place_6"
  region = local.named[6]

  default_tags {
    tags = local.tags
  }
}

module "site_6" {
  source     = "../modules/aws-site"
  count      = local.taken[6] == null ? 0 : 1
  providers  = { aws = aws.place_6 }
  deployment = var.deployment
  region     = local.named[6]
  zone       = var.regions[local.named[6]].zone
  ami        = var.regions[local.named[6]].ami
  layout     = local.regions[local.named[6]]
  bundle     = local.bundle
  secrets    = local.secrets[local.named[6]]
  agent      = local.agents[local.named[6]]
  master     = lookup(local.masters, local.named[6], null)
}

module "request_6" {
  source     = "../modules/aws-peering-request"
  count      = local.taken[6] == null ? 0 : 1
  providers  = { aws = aws.place_6 }
  deployment = var.deployment
  region     = local.named[6]
  networks   = local.networks
}

module "accept_6" {
  source          = "../modules/aws-peering-accept"
  count           = local.taken[6] == null ? 0 : 1
  providers       = { aws = aws.place_6 }
  deployment      = var.deployment
  region          = local.named[6]
  cidrs           = local.cidrs
  connections     = local.connections
  tables          = local.named[6] == var.master.region ? ["front", "inside"] : ["inside"]
  route_table_ids = local.made[local.named[6]].route_table_ids
}

provider "aws" {
  alias  = "place_7"
  region = local.named[7]

  default_tags {
    tags = local.tags
  }
}

module "site_7" {
  source     = "../modules/aws-site"
  count      = local.taken[7] == null ? 0 : 1
  providers  = { aws = aws.place_7 }
  deployment = var.deployment
  region     = local.named[7]
  zone       = var.regions[local.named[7]].zone
  ami        = var.regions[local.named[7]].ami
  layout     = local.regions[local.named[7]]
  bundle     = local.bundle
  secrets    = local.secrets[local.named[7]]
  agent      = local.agents[local.named[7]]
  master     = lookup(local.masters, local.named[7], null)
}

module "request_7" {
  source     = "../modules/aws-peering-request"
  count      = local.taken[7] == null ? 0 : 1
  providers  = { aws = aws.place_7 }
  deployment = var.deployment
  region     = local.named[7]
  networks   = local.networks
}

module "accept_7" {
  source          = "../modules/aws-peering-accept"
  count           = local.taken[7] == null ? 0 : 1
  providers       = { aws = aws.place_7 }
  deployment      = var.deployment
  region          = local.named[7]
  cidrs           = local.cidrs
  connections     = local.connections
  tables          = local.named[7] == var.master.region ? ["front", "inside"] : ["inside"]
  route_table_ids = local.made[local.named[7]].route_table_ids
}

locals {
  sites = concat(
    module.site_0,
    module.site_1,
    module.site_2,
    module.site_3,
    module.site_4,
    module.site_5,
    module.site_6,
    module.site_7
  )
  requests = concat([{}],
    module.request_0[*].connections,
    module.request_1[*].connections,
    module.request_2[*].connections,
    module.request_3[*].connections,
    module.request_4[*].connections,
    module.request_5[*].connections,
    module.request_6[*].connections,
    module.request_7[*].connections
  )
}
