"""Secrets of a site, and connectors around connectors that are given their values and tell none of them."""
