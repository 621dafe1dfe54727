variable "deployment" {
  description = "The name of the deployment."
  type        = string
}

variable "region" {
  description = "The region of the provider."
  type        = string
}

variable "zone" {
  description = "The availability zone; null: the first."
  type        = string
}

variable "ami" {
  description = "The image of the machines; null: the newest Debian 12."
  type        = string
}

variable "layout" {
  description = "Addresses of the region, from the module `layout`."
  type = object({
    site   = string
    slots  = number
    cidr   = string
    front  = string
    inside = string
    agent  = string
  })
}

variable "bundle" {
  description = "The file with the software, and its digest."
  type        = object({ file = string, sha256 = string })
}

variable "secrets" {
  description = "Files of this machine by their names in the region's bucket."
  type        = map(string)
}

variable "agent" {
  description = "The agent's machine."
  type = object({
    instance_type = string
    disk_gb       = number
    settings      = map(string)
    fetched       = map(string)
    rules = object({
      in  = map(object({ protocol = string, first = number, last = number, cidr = string }))
      out = map(object({ protocol = string, first = number, last = number, cidr = string }))
    })
  })
}

variable "master" {
  description = "The master's machine; null: it is in another region."
  type = object({
    address       = string
    instance_type = string
    disk_gb       = number
    client_cidrs  = list(string)
    settings      = map(string)
    fetched       = map(string)
    topology      = string
    rules = object({
      in  = map(object({ protocol = string, first = number, last = number, cidr = string }))
      out = map(object({ protocol = string, first = number, last = number, cidr = string }))
    })
  })
  default = null
}
