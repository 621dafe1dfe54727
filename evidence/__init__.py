"""The ground of a page of results: which code ran where, sections that only tools write, criteria with verdicts.

`benchmarks` and `simulator` write `docs/results` by it. It imports nothing of ours.
"""
