"""What master and site agent both say on the wire, written once: errors, instants, states of tasks.

It knows neither of them.
"""
