"""What Selat costs, each time beside a baseline in the same run. `python -m benchmarks` runs all and records them.

One module per benchmark, each a command of its own: `python -m benchmarks.NAME [--record FILE]`. `report` has the parts
that they share: arguments, tables, rounds in turn, and the section of a page that a benchmark writes. `criteria` has
all wanted figures, `pages` the pages; `processes` runs and measures processes; `links` is a WAN on one machine.
"""
