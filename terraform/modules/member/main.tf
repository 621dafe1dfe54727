# The start-up script of a machine, for any cloud that runs one at the first start. No resources, no provider.

terraform {
  required_version = ">= 1.9"
}

locals {
  script = templatefile("${path.module}/start-up.sh.tftpl", {
    role     = var.role
    settings = join("\n", [for name in sort(keys(var.settings)) : "${name}=\"${var.settings[name]}\""])
    topology = var.topology
    url      = var.bundle.url
    sha256   = var.bundle.sha256
  })
}

output "start_up" {
  description = "The script."
  value       = local.script

  precondition {
    condition     = length(local.script) < 16000
    error_message = "The start-up script is longer than the 16 kB that clouds take: shorten `links`."
  }
}
