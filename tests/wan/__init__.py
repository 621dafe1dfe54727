"""Tests with network namespaces: they need root."""
