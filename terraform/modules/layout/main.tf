# Addresses, ports and rules of a deployment: what is the same in every cloud. No resources, no provider.

terraform {
  required_version = ">= 1.9"
}

locals {
  ports = {
    master = 7410
    agent  = 7411
    # Probes of links are received at free ports: Linux takes them from here.
    probes_first = 32768
    probes_last  = 60999
  }

  block_bits = 16 - tonumber(split("/", var.address_block)[1])

  regions = {
    for region, asked in var.regions : region => {
      site   = asked.site
      slots  = asked.slots
      cidr   = cidrsubnet(var.address_block, local.block_bits, asked.place)
      front  = cidrsubnet(cidrsubnet(var.address_block, local.block_bits, asked.place), 8, 0)
      inside = cidrsubnet(cidrsubnet(var.address_block, local.block_bits, asked.place), 8, 1)
      agent  = cidrhost(cidrsubnet(cidrsubnet(var.address_block, local.block_bits, asked.place), 8, 1), 10)
    }
  }

  master = cidrhost(local.regions[var.master_region].front, 10)
  agents = { for region, made in local.regions : region => made.agent }

  # Rules by member: who may connect to it, and to whom it may connect.
  master_in = merge(
    { for region, address in local.agents : "agent of ${region}" => {
      protocol = "tcp", first = local.ports.master, last = local.ports.master, cidr = "${address}/32"
    } },
    { for cidr in var.client_cidrs : "clients ${cidr}" => {
      protocol = "tcp", first = local.ports.master, last = local.ports.master, cidr = cidr
    } },
  )
  master_out = { for region, address in local.agents : "agent of ${region}" => {
    protocol = "tcp", first = local.ports.agent, last = local.ports.agent, cidr = "${address}/32"
  } }

  agent_in = { for region, own in local.agents : region => merge(
    { master = { protocol = "tcp", first = local.ports.agent, last = local.ports.agent, cidr = "${local.master}/32" } },
    local.between[region],
  ) }
  agent_out = { for region, own in local.agents : region => merge(
    { master = { protocol = "tcp", first = local.ports.master, last = local.ports.master, cidr = "${local.master}/32" } },
    local.between[region],
  ) }
  # The same in both directions.
  between = { for region, own in local.agents : region => merge([
    for other, address in local.agents : {
      "agent of ${other}" = {
        protocol = "tcp", first = local.ports.agent, last = local.ports.agent, cidr = "${address}/32"
      }
      "probes ${other} tcp" = {
        protocol = "tcp", first = local.ports.probes_first, last = local.ports.probes_last, cidr = "${address}/32"
      }
      "probes ${other} udp" = {
        protocol = "udp", first = local.ports.probes_first, last = local.ports.probes_last, cidr = "${address}/32"
      }
    } if other != region
  ]...) }

  default_link = { for figure, value in var.default_link : figure => value if value != null }
  topology = {
    gateway = local.regions[var.gateway_region].site
    sites = { for region, made in local.regions : made.site => {
      slots   = made.slots
      address = "${made.agent}:${local.ports.agent}"
    } }
    links = [for link in var.links : merge(
      { for figure, value in link : figure => value if value != null && !contains(["from", "to"], figure) },
      { from = local.regions[link.from].site, to = local.regions[link.to].site },
    )]
    default_link = local.default_link
  }

  # The state's directory is the member's own, and outlives the machine.
  asks_people = "--auth --bootstrap-token-file /var/lib/selat/master/admin.token --audit-log /var/lib/selat/master/audit.log"

  master_settings = {
    SELAT_LISTEN         = "${local.master}:${local.ports.master}"
    SELAT_SECURITY_FLAGS = join(" ", compact([var.certificates ? local.asks_people : "", var.security_flags]))
    SELAT_FLAGS          = join(" ", var.master_flags)
  }
  agent_settings = { for region, made in local.regions : region => {
    SELAT_SITE           = "${made.site}:${made.slots}"
    SELAT_MASTER         = "${local.master}:${local.ports.master}"
    SELAT_LISTEN         = "${made.agent}:${local.ports.agent}"
    SELAT_SECURITY_FLAGS = var.security_flags
    SELAT_FLAGS          = join(" ", concat([for path in var.allow_paths : "--allow-path ${path}"], var.agent_flags))
  } }
}
