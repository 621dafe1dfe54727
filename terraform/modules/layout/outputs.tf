output "regions" {
  description = "Address ranges and addresses by region."
  value       = local.regions
}

output "master" {
  description = "The master's private address."
  value       = local.master
}

output "ports" {
  description = "The ports of members."
  value       = local.ports
}

output "master_rules" {
  description = "Who may connect to the master, and to whom it may connect."
  value       = { in = local.master_in, out = local.master_out }
}

output "agent_rules" {
  description = "The same of the agent of each region."
  value       = { for region, made in local.regions : region => { in = local.agent_in[region], out = local.agent_out[region] } }
}

output "topology" {
  description = "The topology file's content."
  value       = local.topology
}

output "master_settings" {
  description = "Environment of the master's service."
  value       = local.master_settings
}

output "agent_settings" {
  description = "Environment of the service of each region's agent."
  value       = local.agent_settings
}
