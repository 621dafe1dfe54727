output "vpc_id" {
  description = "The network."
  value       = aws_vpc.this.id
}

output "zone" {
  description = "The availability zone of all subnets."
  value       = local.zone
}

output "inside_subnet_id" {
  description = "The agent's subnet."
  value       = aws_subnet.inside.id
}

output "front_subnet_id" {
  description = "The master's subnet; null: the master is elsewhere."
  value       = one(aws_subnet.front[*].id)
}

output "route_table_ids" {
  description = "Route tables by a name that is known before they are made."
  value = merge(
    { inside = aws_route_table.inside.id },
    { for table in aws_route_table.front : "front" => table.id },
  )
}

output "has_way_to_clients" {
  description = "True once the master's subnet has a way to clients."
  value       = length(aws_route.clients) > 0
}

output "s3_prefix_list_id" {
  description = "The addresses at which the bundle is."
  value       = aws_vpc_endpoint.s3.prefix_list_id
}

output "bundle" {
  description = "Where machines get the bundle; known once they may."
  value = {
    url    = "https://${aws_s3_bucket.bundle.bucket_regional_domain_name}/${aws_s3_object.bundle.key}"
    sha256 = var.bundle.sha256
  }
  depends_on = [aws_s3_bucket_policy.bundle]
}

output "bucket_url" {
  description = "Where the machines find what is in the bucket."
  value       = "https://${aws_s3_bucket.bundle.bucket_regional_domain_name}"
}
