"""What master, site agents and clients say on the wire, written once: errors, instants, states and figures of tasks.

It knows neither master nor agent.
"""
