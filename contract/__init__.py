"""What master, site agents and clients say on the wire, written once.

Errors, instants, the Arrow types of columns, kinds, states and figures of tasks. It imports neither master nor agent.
"""
