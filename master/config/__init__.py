"""What the master is started with."""
