"""From logical queries to the stages of a draft plan: what is pruned, what is split, and what is computed where.

`draft` gives each branch its SOURCE, TABLE and MERGE stages: `stages` those over one stream, `windowjoin` those of
joined streams, `tablestages` the MAPs and the REDUCE of a query over tables. `split` divides an aggregate between
sources and merge, `spread` the conditions of a join, `pruning` decides conditions on `site`, `sinks` ends a draft in a
sink. No stage has a site here but those whose data is there.
"""
