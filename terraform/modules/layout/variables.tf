variable "regions" {
  description = "Regions by the cloud's name for them. `place` numbers a region and gives it its address range."
  type = map(object({
    place = number
    slots = number
    site  = string
  }))
}

variable "master_region" {
  description = "The region with the master."
  type        = string
}

variable "gateway_region" {
  description = "The region that keeps results for clients."
  type        = string
}

variable "address_block" {
  description = "Every region has a /16 of this block: the one with the number of its place."
  type        = string
}

variable "client_cidrs" {
  description = "Address ranges of clients."
  type        = list(string)
}

variable "links" {
  description = "What is known of links between regions: entries of a topology file's `links`, with regions in place of sites."
  type = list(object({
    from      = string
    to        = string
    bandwidth = optional(string)
    latency   = optional(string)
    jitter    = optional(string)
    loss      = optional(string)
    both      = optional(bool)
  }))
}

variable "default_link" {
  description = "The figures of all other links."
  type = object({
    bandwidth = optional(string)
    latency   = optional(string)
    jitter    = optional(string)
    loss      = optional(string)
  })
}

variable "certificates" {
  description = "True when members have certificates: then the master also asks people for tokens."
  type        = bool
}

variable "security_flags" {
  description = "Flags of security of master and agents."
  type        = string
}

variable "master_flags" {
  description = "Further flags of the master."
  type        = list(string)
}

variable "agent_flags" {
  description = "Further flags of all agents."
  type        = list(string)
}

variable "allow_paths" {
  description = "Directories of the agents' machines in which sources, tables and sinks may be."
  type        = list(string)
}
