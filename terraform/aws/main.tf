# A deployment: regions with a site each, links between all of them, the master in one. places.tf has the machines.

module "layout" {
  source         = "../modules/layout"
  regions        = { for region, asked in var.regions : region => { place = asked.place, slots = asked.slots, site = coalesce(asked.site, region) } }
  master_region  = var.master.region
  gateway_region = coalesce(var.gateway, var.master.region)
  address_block  = var.address_block
  client_cidrs   = var.client_cidrs
  links          = var.links
  default_link   = var.default_link
  certificates   = var.certificates != null
  security_flags = var.security_flags
  master_flags   = var.master_flags
  agent_flags    = var.agent_flags
  allow_paths    = var.allow_paths
}

locals {
  tags = merge(var.tags, { deployment = var.deployment, managed-by = "terraform" })

  # Of each place: its region, empty when it is free. Providers of free places are given some region and do nothing.
  taken = [for place in range(8) : one([for region, asked in var.regions : region if asked.place == place])]
  named = [for region in local.taken : region == null ? var.master.region : region]

  bundle  = { file = var.bundle, sha256 = filesha256(var.bundle) }
  regions = module.layout.regions
  cidrs   = { for region, made in local.regions : region => made.cidr }
  ports   = module.layout.ports

  # Members' files lie where nobody finds them who has not the admin's token; renewed ones in the same place.
  certificates = var.certificates == null ? "" : var.certificates
  secret       = var.certificates == null ? "" : filesha256("${local.certificates}/admin.token")
  members      = concat(["master"], [for made in values(local.regions) : "site-${made.site}"])
  hidden       = { for member in local.members : member => "tls/${sha256("${local.secret} ${member}")}" }
  files = { for member, path in local.hidden : member => merge(
    { for file in ["ca.pem", "revoked.pem", "member.pem", "member.key"] : "${path}/${file}" => "${local.certificates}/${member}/${file}" },
    { for file in ["admin.token"] : "${path}/${file}" => "${local.certificates}/${file}" if member == "master" },
  ) }
  secrets = { for region, made in local.regions : region => {
    for path, file in merge(local.files["site-${made.site}"], [for there in ["master"] : local.files[there] if region == var.master.region]...) :
    path => file if var.certificates != null
  } }

  agents = {
    for region, asked in var.regions : region => {
      instance_type = asked.instance_type
      disk_gb       = asked.disk_gb
      rules         = module.layout.agent_rules[region]
      settings      = module.layout.agent_settings[region]
      fetched = {
        for name, path in { SELAT_TLS_URL = local.hidden["site-${local.regions[region].site}"] } :
        name => path if var.certificates != null
      }
    }
  }

  masters = {
    (var.master.region) = {
      address       = module.layout.master
      instance_type = var.master.instance_type
      disk_gb       = var.master.disk_gb
      client_cidrs  = var.client_cidrs
      rules         = module.layout.master_rules
      topology      = yamlencode(module.layout.topology)
      settings      = module.layout.master_settings
      fetched = {
        for name, path in { SELAT_TLS_URL = local.hidden["master"], SELAT_ADMIN_TOKEN_URL = "${local.hidden["master"]}/admin.token" } :
        name => path if var.certificates != null
      }
    }
  }

  # By region, whatever its place is.
  made        = { for site in local.sites : site.region => site }
  networks    = { for region in keys(var.regions) : region => local.made[region].vpc_id }
  connections = merge(local.requests...)
}
