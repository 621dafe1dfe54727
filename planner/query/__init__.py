"""From a parsed query and a catalog to a logical statement, and from that to the stages of a draft plan.

    SelectQuery --compose: derived, logical, unions, layers--> LogicalStatement --draft: stages, windowjoin--> DraftPlan

`compose` binds queries over queries from the inside out; each SELECT is bound by `logical` over its scope. `draft`
gives each branch its SOURCE, TABLE and MERGE stages: `stages` those over one stream, `windowjoin` those of joined
streams.

Expressions are trees of `planner.sql.dialect.exp`. In a bound expression every column reads `input.c` (the stream) or
`t1.c` (the first table), whatever the query calls them, and the group's window is one canonical `window(...)` call.
"""
