"""From the logical plan to the stages of a draft: what is pruned, what is split, and what is computed where.

    SELECTs --rewrite: RULES--> SELECTs --stages, merges, windowjoin, tablestages--> stages     (all called by `draft`)
                                        --tree--> logical operators for EXPLAIN

The rules are `spread` (conditions of a join of streams), `pruning` (conditions on `site`) and `conditions` (on one
joined table). `stages` makes the stages over one stream, `merges` those of aggregates, `windowjoin` those of joined
streams, `tablestages` the MAPs and the REDUCE of a query over tables. `split` divides an aggregate between sources and
merge. `sinks` ends a draft in a sink. A stage has sites here only if its data binds it to them.
"""
