"""Converts relations, functions and assignments to messages for agents, and agents' reports to values."""
