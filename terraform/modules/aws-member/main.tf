# One machine with one member: its firewall, its disk, its start-up script. It has no credentials and no key to log in with.

terraform {
  required_version = ">= 1.9"
  required_providers {
    aws = {
      source  = "hashicorp/aws"
      version = "~> 5.100"
    }
  }
}

resource "aws_security_group" "this" {
  name        = var.name
  description = "Selat ${var.role}: other members, and clients of the master"
  vpc_id      = var.vpc_id
  tags        = { Name = var.name }
}

resource "aws_vpc_security_group_ingress_rule" "this" {
  for_each          = var.rules.in
  security_group_id = aws_security_group.this.id
  description       = each.key
  ip_protocol       = each.value.protocol
  from_port         = each.value.first
  to_port           = each.value.last
  cidr_ipv4         = each.value.cidr
  tags              = { Name = "${var.name} from ${each.key}" }
}

resource "aws_vpc_security_group_egress_rule" "this" {
  for_each          = var.rules.out
  security_group_id = aws_security_group.this.id
  description       = each.key
  ip_protocol       = each.value.protocol
  from_port         = each.value.first
  to_port           = each.value.last
  cidr_ipv4         = each.value.cidr
  tags              = { Name = "${var.name} to ${each.key}" }
}

resource "aws_vpc_security_group_egress_rule" "bundle" {
  security_group_id = aws_security_group.this.id
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
  prefix_list_id    = var.s3_prefix_list_id
  tags              = { Name = "${var.name} to its bundle" }
}

# The state outlives the machine: a new one, with a newer bundle or of another type, goes on with it.
resource "aws_ebs_volume" "state" {
  availability_zone = var.zone
  size              = var.disk_gb
  type              = "gp3"
  encrypted         = true
  tags              = { Name = "${var.name} state" }
}

module "start_up" {
  source   = "../member"
  role     = var.role
  topology = var.topology
  bundle   = var.bundle
  settings = merge(var.settings, {
    SELAT_DATA_DEVICE = "/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_${replace(aws_ebs_volume.state.id, "-", "")}"
  })
}

# Its subnet gives no public addresses. To say so here again would have a machine replaced that has one of its own.
resource "aws_instance" "this" {
  ami                         = var.ami
  instance_type               = var.instance_type
  subnet_id                   = var.subnet_id
  private_ip                  = var.address
  vpc_security_group_ids      = [aws_security_group.this.id]
  user_data                   = module.start_up.start_up
  user_data_replace_on_change = true
  tags                        = { Name = var.name }

  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }

  root_block_device {
    volume_type = "gp3"
    volume_size = 12
    encrypted   = true
    tags        = { Name = "${var.name} system" }
  }

  lifecycle {
    # A newer image is for the next machine, not a reason to replace this one.
    ignore_changes = [ami]
  }
}

resource "aws_volume_attachment" "state" {
  device_name                    = "/dev/sdf"
  volume_id                      = aws_ebs_volume.state.id
  instance_id                    = aws_instance.this.id
  stop_instance_before_detaching = true
}

resource "aws_eip" "this" {
  count  = var.public ? 1 : 0
  domain = "vpc"
  tags   = { Name = var.name }
}

resource "aws_eip_association" "this" {
  count         = var.public ? 1 : 0
  allocation_id = aws_eip.this[0].id
  instance_id   = aws_instance.this.id
}
