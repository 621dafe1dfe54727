"""What Selat costs, each time beside a baseline in the same run. `python -m benchmarks` runs all and records them.

One module per benchmark, each a command of its own: `python -m benchmarks.NAME [--record FILE]`. `report` has what they
share: arguments, tables, and the part of the file of results that a benchmark replaces; `processes` runs and measures
processes, `links` is a WAN on one machine.
"""
