"""The agent of one site: reconciles what runs here with the master's assignment, and reports what runs.

loops    registration, assignments and reports, and the way back after a break
runtime  starts and stops tasks, results and streams as the assignment says
results  copies of result channels, kept for clients
convert  messages to the agent's values, and back
metrics, measures, memory, disk_use, health, member  what the agent tells about itself

No room below knows the assignment as a whole, nor the master's services.
"""
