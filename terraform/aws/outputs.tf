output "client_address" {
  description = "Where clients find the master (`selat --master`); null: `client_cidrs` is empty, and it has no public address."
  value       = length(var.client_cidrs) == 0 ? null : "${local.made[var.master.region].public_address}:${local.ports.master}"
}

output "certificates" {
  description = "Where certificates are on every machine, and whether there are any."
  value = {
    directory = "/etc/selat/tls"
    used      = var.certificates != null
  }
}

output "topology" {
  description = "The topology: `terraform output -json | selat topology from-terraform`."
  value       = module.layout.topology
}

output "members" {
  description = "Machines and private addresses."
  value = merge(
    { master = {
      region      = var.master.region
      instance_id = local.made[var.master.region].instance_ids["master"]
      address     = "${module.layout.master}:${local.ports.master}"
    } },
    { for region, made in local.regions : "agent of ${made.site}" => {
      region      = region
      instance_id = local.made[region].instance_ids["agent"]
      address     = "${made.agent}:${local.ports.agent}"
    } },
  )
}

output "links" {
  description = "Peering connections by pair of regions."
  value       = local.connections
}
