variable "deployment" {
  description = "Name of the deployment: the beginning of all names, and a tag."
  type        = string
  default     = "selat"

  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{0,14}$", var.deployment))
    error_message = "deployment must have small letters, digits and hyphens, 15 at most, and begin with a letter: buckets are named by it."
  }
}

variable "regions" {
  description = <<-TEXT
    The regions by their names at AWS. `place` is the region's number, 0 to 7: it gives the region its address range, so it
    stays the same while the region is there. `site` is what Selat calls it, by default the region's name.
  TEXT
  type = map(object({
    place         = number
    slots         = number
    instance_type = string
    site          = optional(string)
    disk_gb       = optional(number, 50)
    zone          = optional(string)
    ami           = optional(string)
  }))

  validation {
    condition     = length(var.regions) > 0 && alltrue([for region in values(var.regions) : contains(range(8), region.place)])
    error_message = "There must be a region, and every place must be a whole number from 0 to 7. More places: scripts/make_places.py."
  }
  validation {
    condition     = length(distinct([for region in values(var.regions) : region.place])) == length(var.regions)
    error_message = "Every region needs a place of its own: two at one place would have the same addresses."
  }
  validation {
    condition     = alltrue([for region in values(var.regions) : region.slots >= 1 && floor(region.slots) == region.slots])
    error_message = "slots must be a whole number, at least 1."
  }
  validation {
    condition     = alltrue([for name, region in var.regions : can(regex("^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$", coalesce(region.site, name)))])
    error_message = "A site's name has letters, digits, - and _, at most 63."
  }
  validation {
    condition     = length(distinct([for name, region in var.regions : coalesce(region.site, name)])) == length(var.regions)
    error_message = "Every region needs a site's name of its own."
  }
}

variable "master" {
  description = "The master's region, and its machine."
  type = object({
    region        = string
    instance_type = optional(string, "t3.small")
    disk_gb       = optional(number, 20)
  })

  validation {
    condition     = contains(keys(var.regions), var.master.region)
    error_message = "master.region must be one of the regions."
  }
}

variable "gateway" {
  description = "The region that keeps results for clients; null: the master's."
  type        = string
  default     = null

  validation {
    condition     = var.gateway == null ? true : contains(keys(var.regions), var.gateway)
    error_message = "gateway must be one of the regions."
  }
}

variable "client_cidrs" {
  description = "Address ranges of clients. None: the master has no public address."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for cidr in var.client_cidrs : can(cidrnetmask(cidr))])
    error_message = "client_cidrs must be IPv4 ranges such as 203.0.113.0/24."
  }
  validation {
    condition     = alltrue([for cidr in var.client_cidrs : try(tonumber(split("/", cidr)[1]) >= 16, true)])
    error_message = "client_cidrs must be ranges of /16 or smaller: the port is not for everybody."
  }
}

variable "address_block" {
  description = "Private addresses of the whole deployment: the region at place N has the N-th /16 of it."
  type        = string
  default     = "10.64.0.0/12"

  validation {
    condition     = can(cidrnetmask(var.address_block)) && try(tonumber(split("/", var.address_block)[1]) <= 13 && cidrhost(var.address_block, 0) == split("/", var.address_block)[0], false)
    error_message = "address_block must be the beginning of a /13 or larger, as 10.64.0.0/12: eight places need eight /16."
  }
}

variable "links" {
  description = "What is known of links between regions: entries of a topology file's `links`, with regions in place of sites. The master measures them all the same."
  type = list(object({
    from      = string
    to        = string
    bandwidth = optional(string)
    latency   = optional(string)
    jitter    = optional(string)
    loss      = optional(string)
    both      = optional(bool)
  }))
  default = []

  validation {
    condition     = alltrue([for link in var.links : contains(keys(var.regions), link.from) && contains(keys(var.regions), link.to)])
    error_message = "Links are between regions of `regions`."
  }
}

variable "default_link" {
  description = "The figures of all other links, until they are measured."
  type = object({
    bandwidth = optional(string)
    latency   = optional(string)
    jitter    = optional(string)
    loss      = optional(string)
  })
  default = { bandwidth = "500Mbit/s", latency = "50ms" }
}

variable "bundle" {
  description = "The file that `make bundle` wrote."
  type        = string
}

variable "certificates" {
  description = "Directory on this machine with a directory of `selat cert issue` for each member, named `master` and `site-NAME`, and in `admin.token` the first admin's token, of `selat token new`. Null: nobody asks who connects."
  type        = string
  default     = null

  validation {
    condition = var.certificates == null || alltrue([
      for file in concat(["admin.token"], [
        for pair in setproduct(
          concat(["master"], [for region, asked in var.regions : "site-${coalesce(asked.site, region)}"]),
          ["ca.pem", "revoked.pem", "member.pem", "member.key"],
        ) : join("/", pair)
      ]) : fileexists("${var.certificates == null ? "" : var.certificates}/${file}")
    ])
    error_message = "In `certificates` are to be admin.token, and ca.pem, revoked.pem, member.pem and member.key in `master` and in `site-NAME` for each site."
  }
}

variable "security_flags" {
  description = "`--insecure` where there are no `certificates`: the firewalls alone protect then. With certificates, further flags of security."
  type        = string
  default     = ""

  validation {
    condition     = (var.certificates == null) == strcontains(var.security_flags, "--insecure")
    error_message = "Give `certificates`; or security_flags = \"--insecure\", when nobody is to ask who connects, and the firewalls alone are to protect."
  }
}

variable "master_flags" {
  description = "Further flags of the master."
  type        = list(string)
  default     = []
}

variable "agent_flags" {
  description = "Further flags of all agents, such as --driver-memory=4g."
  type        = list(string)
  default     = []

  validation {
    condition     = alltrue([for flag in var.agent_flags : !can(regex("[\"`$\\\\\\n]", flag))])
    error_message = "Flags may not have quotes, backticks, dollars, backslashes or line ends."
  }
}

variable "allow_paths" {
  description = "Directories of the agents' machines in which sources, tables and sinks may be."
  type        = list(string)
  default     = ["/srv/selat"]
}

variable "tags" {
  description = "Tags of everything."
  type        = map(string)
  default     = {}
}
