"""Connectors: how rows get into a site from outside and out again. A module or a room each.

sources   the ports of sources and tables
sinks     the ports of sinks
registry  the connectors that there are
secrets   values of secret options, given to connectors and kept out of what they say

A connector knows the engine's scans, and no task.
"""
