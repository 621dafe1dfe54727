"""Adapting running queries: what was measured, why a query is slow, and what would help. Pure.

    figures of two instants -> rates -> causes -> options -> a decision, or why there is none

Nothing here acts, and nothing knows the time: both instants are passed in.
"""
