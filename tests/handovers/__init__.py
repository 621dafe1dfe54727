"""Handovers on real Spark, each with a fault in its middle: results equal DuckDB's, and nothing is left behind.

plan     draws from a seed the kind of handover, the fault, and when rows come
scenes   the streams and queries of each kind
strike   the faults
run      plays one seed
report   the page
"""
