"""Relations, functions and assignments as messages for agents, and what agents report, as values."""
