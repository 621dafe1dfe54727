"""A cluster in virtual time: sites, slots, links and tasks at any scale, under the planner's own decisions.

clock     virtual time and what happens in it
fairness  max-min fair rates of transfers that share links
network   transfers in progress, on links that change
plots     figures as SVG; statistics, means over rounds
awan      batch jobs of several frameworks that share slots by lease, by offer, or directly
sana      long-running queries over streams of many regions that share operators and inputs

Nothing here decides: placement, leases and estimates are the planner's own code. A run is determined by its seed.
"""
