"""How often tasks have their epochs."""
