# A region: its network, the agent of its site, and in one region the master.

terraform {
  required_version = ">= 1.9"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 5.100"
    }
  }
}

# Debian's own images.
data "aws_ami" "debian" {
  count       = var.ami == null ? 1 : 0
  owners      = ["136693071363"]
  most_recent = true

  filter {
    name   = "name"
    values = ["debian-12-amd64-*"]
  }
}

locals {
  ami = var.ami == null ? data.aws_ami.debian[0].id : var.ami
}

module "network" {
  source        = "../aws-network"
  name          = "${var.deployment} ${var.region}"
  region        = var.region
  zone          = var.zone
  cidr          = var.layout.cidr
  inside        = var.layout.inside
  front         = var.master == null ? null : var.layout.front
  client_cidrs  = var.master == null ? [] : var.master.client_cidrs
  bucket_prefix = "${var.deployment}-${var.region}"
  bundle        = var.bundle
  secrets       = var.secrets
}

module "agent" {
  source            = "../aws-member"
  name              = "${var.deployment} agent ${var.layout.site}"
  role              = "agent"
  vpc_id            = module.network.vpc_id
  subnet_id         = module.network.inside_subnet_id
  zone              = module.network.zone
  address           = var.layout.agent
  rules             = var.agent.rules
  s3_prefix_list_id = module.network.s3_prefix_list_id
  ami               = local.ami
  instance_type     = var.agent.instance_type
  disk_gb           = var.agent.disk_gb
  bundle            = module.network.bundle
  settings          = merge(var.agent.settings, { for name, path in var.agent.fetched : name => "${module.network.bucket_url}/${path}" })
}

module "master" {
  count             = var.master == null ? 0 : 1
  source            = "../aws-member"
  name              = "${var.deployment} master"
  role              = "master"
  vpc_id            = module.network.vpc_id
  subnet_id         = module.network.front_subnet_id
  zone              = module.network.zone
  address           = var.master.address
  public            = module.network.has_way_to_clients
  rules             = var.master.rules
  s3_prefix_list_id = module.network.s3_prefix_list_id
  ami               = local.ami
  instance_type     = var.master.instance_type
  disk_gb           = var.master.disk_gb
  bundle            = module.network.bundle
  settings          = merge(var.master.settings, { for name, path in var.master.fetched : name => "${module.network.bucket_url}/${path}" })
  topology          = var.master.topology
}
