"""The product's own master and agents in a simulated world: time, network, disks and crashes belong to a seed."""
