"""What is known of the links between sites, and what to measure next. Pure: samples in, estimates and probes out.

samples   what was measured
estimate  one link's record: smoothing, change detection, confidence
probing   which links to probe now
snapshot  all links at one moment, for the planner
"""
