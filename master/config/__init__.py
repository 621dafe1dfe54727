"""The master's settings."""
