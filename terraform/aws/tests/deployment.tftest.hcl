mock_provider "aws" {
  alias = "place_0"

  mock_data "aws_availability_zones" {
    defaults = { names = ["zone-a", "zone-b"] }
  }
  mock_data "aws_ami" {
    defaults = { id = "ami-0123456789abcdef0" }
  }
}

mock_provider "aws" {
  alias = "place_1"

  mock_data "aws_availability_zones" {
    defaults = { names = ["zone-a", "zone-b"] }
  }
  mock_data "aws_ami" {
    defaults = { id = "ami-0123456789abcdef0" }
  }
}

mock_provider "aws" {
  alias = "place_2"

  mock_data "aws_availability_zones" {
    defaults = { names = ["zone-a", "zone-b"] }
  }
  mock_data "aws_ami" {
    defaults = { id = "ami-0123456789abcdef0" }
  }
}

mock_provider "aws" {
  alias = "place_3"

  mock_data "aws_availability_zones" {
    defaults = { names = ["zone-a", "zone-b"] }
  }
  mock_data "aws_ami" {
    defaults = { id = "ami-0123456789abcdef0" }
  }
}

mock_provider "aws" {
  alias = "place_4"

  mock_data "aws_availability_zones" {
    defaults = { names = ["zone-a", "zone-b"] }
  }
  mock_data "aws_ami" {
    defaults = { id = "ami-0123456789abcdef0" }
  }
}

mock_provider "aws" {
  alias = "place_5"

  mock_data "aws_availability_zones" {
    defaults = { names = ["zone-a", "zone-b"] }
  }
  mock_data "aws_ami" {
    defaults = { id = "ami-0123456789abcdef0" }
  }
}

mock_provider "aws" {
  alias = "place_6"

  mock_data "aws_availability_zones" {
    defaults = { names = ["zone-a", "zone-b"] }
  }
  mock_data "aws_ami" {
    defaults = { id = "ami-0123456789abcdef0" }
  }
}

mock_provider "aws" {
  alias = "place_7"

  mock_data "aws_availability_zones" {
    defaults = { names = ["zone-a", "zone-b"] }
  }
  mock_data "aws_ami" {
    defaults = { id = "ami-0123456789abcdef0" }
  }
}

variables {
  bundle         = "tests/bundle.txt"
  certificates   = null
  security_flags = "--insecure"
  master         = { region = "us-east-1" }
  regions = {
    us-east-1      = { place = 0, slots = 4, instance_type = "m7i.xlarge", site = "us" }
    eu-central-1   = { place = 1, slots = 2, instance_type = "m7i.large", site = "eu" }
    ap-northeast-1 = { place = 5, slots = 2, instance_type = "m7i.large", site = "asia" }
  }
  client_cidrs = ["203.0.113.0/24"]
  links        = [{ from = "us-east-1", to = "eu-central-1", bandwidth = "400Mbit/s", latency = "45ms", both = true }]
}

run "three_regions" {
  command = apply

  assert {
    condition     = output.topology.gateway == "us" && sort(keys(output.topology.sites)) == tolist(["asia", "eu", "us"])
    error_message = "The topology has the sites by their names, and the gateway is the master's."
  }
  assert {
    condition     = output.topology.sites.asia.address == "10.69.1.10:7411" && output.topology.sites.asia.slots == 2
    error_message = "A region's addresses follow from its place alone."
  }
  assert {
    condition     = output.topology.links[0].from == "us" && output.topology.links[0].to == "eu" && output.topology.links[0].both
    error_message = "Links are between sites."
  }
  assert {
    condition     = length(output.links) == 3 && length(distinct([for name, member in output.members : member.address])) == 4
    error_message = "Three pairs, four members, and no address twice."
  }
  assert {
    condition     = length([for member in output.members : member if startswith(member.address, "10.64.0.")]) == 1
    error_message = "Only the master is in a subnet of its own."
  }
  assert {
    condition     = endswith(output.client_address, ":7410")
    error_message = "Clients find the master."
  }
  assert {
    condition     = strcontains(module.site_5[0].start_up["agent"], "SELAT_SITE=\"asia:2\"") && strcontains(module.site_5[0].start_up["agent"], "SELAT_MASTER=\"10.64.0.10:7410\"")
    error_message = "An agent is told its site and the master."
  }
  assert {
    condition     = strcontains(module.site_0[0].start_up["master"], "\"gateway\": \"us\"") && !strcontains(module.site_0[0].start_up["agent"], "topology.yaml")
    error_message = "The topology is the master's alone."
  }
}

run "a_region_less_moves_nothing" {
  command = apply

  variables {
    regions = {
      us-east-1      = { place = 0, slots = 4, instance_type = "m7i.xlarge", site = "us" }
      ap-northeast-1 = { place = 5, slots = 2, instance_type = "m7i.large", site = "asia" }
    }
    links = []
  }

  assert {
    condition     = output.topology.sites.asia.address == "10.69.1.10:7411" && length(output.links) == 1
    error_message = "The others keep their addresses."
  }
}

run "no_clients_no_public_address" {
  command = apply

  variables {
    client_cidrs = []
  }

  assert {
    condition     = output.client_address == null
    error_message = "Without clients there is nothing public."
  }
}

run "two_regions_at_one_place" {
  command = plan

  variables {
    regions = {
      us-east-1    = { place = 0, slots = 4, instance_type = "m7i.xlarge" }
      eu-central-1 = { place = 0, slots = 2, instance_type = "m7i.large" }
    }
    links = []
  }

  expect_failures = [var.regions]
}

run "a_place_that_there_is_not" {
  command = plan

  variables {
    regions = { us-east-1 = { place = 8, slots = 4, instance_type = "m7i.xlarge" } }
    links   = []
  }

  expect_failures = [var.regions]
}

run "everybody_is_no_client" {
  command = plan

  variables {
    client_cidrs = ["0.0.0.0/0"]
  }

  expect_failures = [var.client_cidrs]
}

run "a_master_nowhere" {
  command = plan

  variables {
    master = { region = "mars-1" }
  }

  expect_failures = [var.master]
}

run "settings_that_a_shell_would_read_otherwise" {
  command = plan

  variables {
    agent_flags = ["--spark-conf=a=$(id)"]
  }

  expect_failures = [var.agent_flags]
}

run "without_certificates_somebody_has_to_say_so" {
  command = plan

  variables {
    security_flags = ""
  }

  expect_failures = [var.security_flags]
}

run "certificates_that_are_not_there" {
  command = plan

  variables {
    certificates   = "tests"
    security_flags = ""
  }

  expect_failures = [var.certificates]
}

run "every_member_is_told_where_its_own_certificate_is" {
  command = apply

  variables {
    certificates   = "tests/certificates"
    security_flags = ""
  }

  assert {
    condition = alltrue([
      for start_up in concat(values(module.site_0[0].start_up), values(module.site_1[0].start_up), values(module.site_5[0].start_up)) :
      length(regexall("SELAT_TLS_URL=\"https://[^\"]*/tls/[0-9a-f]{64}\"", start_up)) == 1 && !strcontains(start_up, "--insecure")
    ])
    error_message = "Each machine fetches its certificate."
  }
  assert {
    condition = length(distinct(flatten([
      for start_up in concat(values(module.site_0[0].start_up), values(module.site_1[0].start_up), values(module.site_5[0].start_up)) :
      regexall("tls/[0-9a-f]{64}\"", start_up)
    ]))) == 4
    error_message = "No two members find the same."
  }
  assert {
    condition     = strcontains(module.site_0[0].start_up["master"], "--auth --bootstrap-token-file") && !strcontains(module.site_0[0].start_up["agent"], "admin.token")
    error_message = "The master asks people for tokens, and it alone gets the first one."
  }
  assert {
    condition     = !strcontains(join("", values(module.site_0[0].start_up)), "key-of-")
    error_message = "No key is in a start-up script."
  }
  assert {
    condition     = output.certificates.used
    error_message = "Certificates are used."
  }
}
