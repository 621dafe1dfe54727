variable "name" {
  description = "Of everything here, for people."
  type        = string
}

variable "region" {
  description = "The region of the provider."
  type        = string
}

variable "zone" {
  description = "The availability zone; null: the first."
  type        = string
  default     = null
}

variable "cidr" {
  description = "The address range of the network."
  type        = string
}

variable "inside" {
  description = "The range of the agent's subnet."
  type        = string
}

variable "front" {
  description = "The range of the master's subnet; null: the master is elsewhere."
  type        = string
  default     = null
}

variable "client_cidrs" {
  description = "Address ranges that the master's subnet reaches."
  type        = list(string)
  default     = []
}

variable "bucket_prefix" {
  description = "The beginning of the bucket's name."
  type        = string
}

variable "bundle" {
  description = "The file with the software, and its digest."
  type        = object({ file = string, sha256 = string })
}

variable "secrets" {
  description = "Files of this machine by their names in the bucket, which nobody can guess."
  type        = map(string)
  default     = {}
}
