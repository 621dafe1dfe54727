"""Figures of WASP's evaluation: a query over sixteen sites, whose rates and links change, under `planner.adapt`."""
