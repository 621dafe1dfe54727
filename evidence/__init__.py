"""The means to write pages of results: the code that ran and where, sections that only tools write, criteria.

`benchmarks`, `simulator` and the soak test write `docs/results` with it. It imports no package of Selat.
"""
