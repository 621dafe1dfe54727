output "region" {
  description = "The region."
  value       = var.region
}

output "vpc_id" {
  description = "Its network."
  value       = module.network.vpc_id
}

output "route_table_ids" {
  description = "Its route tables by name."
  value       = module.network.route_table_ids
}

output "instance_ids" {
  description = "Its machines by role."
  value = merge(
    { agent = module.agent.instance_id },
    { for made in module.master : "master" => made.instance_id },
  )
}

output "public_address" {
  description = "The master's address for clients; null: none."
  value       = one(module.master[*].public_address)
}

output "start_up" {
  description = "Start-up scripts by role."
  value = merge(
    { agent = module.agent.start_up },
    { for made in module.master : "master" => made.start_up },
  )
}
