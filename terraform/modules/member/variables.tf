variable "role" {
  description = "master or agent."
  type        = string

  validation {
    condition     = contains(["master", "agent"], var.role)
    error_message = "A member is a master or an agent."
  }
}

variable "settings" {
  description = "Environment of the service: see deploy/member/selat-member."
  type        = map(string)

  validation {
    condition     = alltrue([for value in values(var.settings) : !can(regex("[\"`$\\\\\n]", value))])
    error_message = "Settings may not have quotes, backticks, dollars, backslashes or line ends: they stand in a file that systemd and sh read."
  }
}

variable "topology" {
  description = "Content of the topology file, for the master; else empty."
  type        = string
  default     = ""
}

variable "bundle" {
  description = "Where the machine gets its software, and the digest that it must have."
  type        = object({ url = string, sha256 = string })
}
