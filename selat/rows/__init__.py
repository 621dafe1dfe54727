"""Rows as Arrow: the Arrow type of each SQL type, and Python values, CSV and DataFrames as record batches.

It must not know where rows come from or go to.
"""
