# One region's requests for links. Of each pair of regions the one whose name comes first asks.

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

variable "networks" {
  description = "All networks by region."
  type        = map(string)
}

resource "aws_vpc_peering_connection" "this" {
  # Two equal names are no pair; of two others, sorting tells the first.
  for_each    = toset([for other in keys(var.networks) : other if other != var.region && sort([other, var.region])[0] == var.region])
  vpc_id      = var.networks[var.region]
  peer_vpc_id = var.networks[each.key]
  peer_region = each.key
  auto_accept = false
  tags        = { Name = "${var.deployment} ${var.region} ${each.key}" }
}

output "connections" {
  description = "Links by pair, `FIRST/SECOND`."
  value       = { for other, made in aws_vpc_peering_connection.this : "${var.region}/${other}" => made.id }
}
