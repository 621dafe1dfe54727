"""From a parsed SELECT and a catalog to a logical query, and from that to the stages of a draft plan.

    SelectQuery --scope--> names bound --logical--> LogicalQuery --stages--> SOURCE, TABLE and MERGE stages

Expressions are trees of `planner.sql.dialect.exp`. In a bound expression every column reads `input.c` (the stream) or
`t1.c` (the first table), whatever the query calls them, and the group's window is one canonical `window(...)` call.
"""
