# One region's end of all its links: it accepts those that others asked for, and has routes over all.

terraform {
  required_version = ">= 1.9"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 5.100"
    }
  }
}

variable "deployment" {
  description = "The name of the deployment."
  type        = string
}

variable "region" {
  description = "The region of the provider."
  type        = string
}

variable "cidrs" {
  description = "Address ranges by region."
  type        = map(string)
}

variable "connections" {
  description = "Links by pair, `FIRST/SECOND`; the first one asked."
  type        = map(string)
}

variable "tables" {
  description = "Names of the region's route tables."
  type        = list(string)
}

variable "route_table_ids" {
  description = "The region's route tables by name."
  type        = map(string)
}

locals {
  others = [for other in keys(var.cidrs) : other if other != var.region]
  pairs  = { for other in local.others : other => join("/", sort([other, var.region])) }
  asked  = toset([for other in local.others : other if sort([other, var.region])[0] == other])
  routes = { for pair in setproduct(var.tables, local.others) : join(" ", pair) => { table = pair[0], other = pair[1] } }
}

resource "aws_vpc_peering_connection_accepter" "this" {
  for_each                  = local.asked
  vpc_peering_connection_id = var.connections[local.pairs[each.key]]
  auto_accept               = true
  tags                      = { Name = "${var.deployment} ${each.key} ${var.region}" }
}

resource "aws_route" "this" {
  for_each                  = local.routes
  route_table_id            = var.route_table_ids[each.value.table]
  destination_cidr_block    = var.cidrs[each.value.other]
  vpc_peering_connection_id = var.connections[local.pairs[each.value.other]]
  depends_on                = [aws_vpc_peering_connection_accepter.this]
}
