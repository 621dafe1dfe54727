"""Tests of what deploys Selat: Terraform against an emulated cloud, start-up scripts in clean roots, images, charts.

`make deploy-test` runs them and writes docs/results/deploy.md. They are no part of `make test`: they need tools,
and take minutes.
"""
