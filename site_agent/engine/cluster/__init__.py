"""A session whose executors are on other machines: the files they fetch from the agent, ports, and encryption."""
