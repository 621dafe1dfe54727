output "instance_id" {
  description = "The machine."
  value       = aws_instance.this.id
}

output "public_address" {
  description = "The address for clients; null: none."
  value       = one(aws_eip.this[*].public_ip)
}

output "start_up" {
  description = "The start-up script."
  value       = module.start_up.start_up
}
