# Three regions: terraform apply -var-file=three-regions.tfvars
bundle = "../../dist/selat-bundle.tar.gz"

regions = {
  us-east-1      = { place = 0, slots = 4, instance_type = "m7i.xlarge", site = "us" }
  eu-central-1   = { place = 1, slots = 2, instance_type = "m7i.large", site = "eu" }
  ap-northeast-1 = { place = 2, slots = 2, instance_type = "m7i.large", site = "asia" }
}

master = { region = "us-east-1" }

# What `selat cert issue` and `selat token new` made: docs/deploy.md says how.
certificates = "certificates"

# The addresses of the people who query; without any the master has no public address.
client_cidrs = ["203.0.113.0/24"]

links = [
  { from = "us-east-1", to = "eu-central-1", latency = "45ms", both = true },
  { from = "us-east-1", to = "ap-northeast-1", latency = "80ms", both = true },
  { from = "eu-central-1", to = "ap-northeast-1", latency = "115ms", both = true },
]
