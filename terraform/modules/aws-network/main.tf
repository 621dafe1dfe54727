# A region's network, closed: no way out but to other regions, to the bundle, and from the master to clients.

terraform {
  required_version = ">= 1.9"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 5.100"
    }
  }
}

data "aws_availability_zones" "here" {
  state = "available"
}

locals {
  zone = coalesce(var.zone, data.aws_availability_zones.here.names[0])
}

resource "aws_vpc" "this" {
  cidr_block           = var.cidr
  enable_dns_support   = true
  enable_dns_hostnames = true
  tags                 = { Name = var.name }
}

# Nothing uses it, and whatever does by mistake reaches nobody.
resource "aws_default_security_group" "this" {
  vpc_id = aws_vpc.this.id
  tags   = { Name = "${var.name} unused" }
}

resource "aws_subnet" "inside" {
  vpc_id                  = aws_vpc.this.id
  cidr_block              = var.inside
  availability_zone       = local.zone
  map_public_ip_on_launch = false
  tags                    = { Name = "${var.name} inside" }
}

resource "aws_route_table" "inside" {
  vpc_id = aws_vpc.this.id
  tags   = { Name = "${var.name} inside" }
}

resource "aws_route_table_association" "inside" {
  subnet_id      = aws_subnet.inside.id
  route_table_id = aws_route_table.inside.id
}

# The master's subnet, in its region alone. It reaches clients, and no other address of the Internet.
resource "aws_subnet" "front" {
  count                   = var.front == null ? 0 : 1
  vpc_id                  = aws_vpc.this.id
  cidr_block              = var.front
  availability_zone       = local.zone
  map_public_ip_on_launch = false
  tags                    = { Name = "${var.name} front" }
}

resource "aws_route_table" "front" {
  count  = var.front == null ? 0 : 1
  vpc_id = aws_vpc.this.id
  tags   = { Name = "${var.name} front" }
}

resource "aws_route_table_association" "front" {
  count          = var.front == null ? 0 : 1
  subnet_id      = aws_subnet.front[0].id
  route_table_id = aws_route_table.front[0].id
}

resource "aws_internet_gateway" "front" {
  count  = var.front != null && length(var.client_cidrs) > 0 ? 1 : 0
  vpc_id = aws_vpc.this.id
  tags   = { Name = var.name }
}

resource "aws_route" "clients" {
  for_each               = var.front == null ? toset([]) : toset(var.client_cidrs)
  route_table_id         = aws_route_table.front[0].id
  destination_cidr_block = each.value
  gateway_id             = aws_internet_gateway.front[0].id
}
