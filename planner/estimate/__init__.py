"""How many rows and bytes stages are expected to send."""
