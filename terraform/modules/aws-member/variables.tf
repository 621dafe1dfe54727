variable "name" {
  description = "Of everything here."
  type        = string
}

variable "role" {
  description = "master or agent."
  type        = string
}

variable "vpc_id" {
  description = "The network."
  type        = string
}

variable "subnet_id" {
  description = "The subnet."
  type        = string
}

variable "zone" {
  description = "The availability zone of the subnet."
  type        = string
}

variable "address" {
  description = "The private address."
  type        = string
}

variable "public" {
  description = "Whether clients reach it at a public address."
  type        = bool
  default     = false
}

variable "rules" {
  description = "Who may connect to it, and to whom it may connect."
  type = object({
    in  = map(object({ protocol = string, first = number, last = number, cidr = string }))
    out = map(object({ protocol = string, first = number, last = number, cidr = string }))
  })
}

variable "s3_prefix_list_id" {
  description = "The addresses at which the bundle is."
  type        = string
}

variable "ami" {
  description = "The image of the machine: Debian 12, or another Linux with systemd and Python 3.11."
  type        = string
}

variable "instance_type" {
  description = "The type of the machine, of the Nitro kind."
  type        = string
}

variable "disk_gb" {
  description = "The size of the disk for the state."
  type        = number
}

variable "bundle" {
  description = "Where the machine gets its software, and the digest that it must have."
  type        = object({ url = string, sha256 = string })
}

variable "settings" {
  description = "Environment of the service."
  type        = map(string)
}

variable "topology" {
  description = "Content of the topology file, for the master."
  type        = string
  default     = ""
}
