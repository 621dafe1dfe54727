"""From syntax and relations to logical queries: every name bound, nothing said about stages or sites.

    SelectQuery --compose: derived, logical, unions, layers--> LogicalStatement

`compose` binds queries over queries from the inside out; `logical` binds one SELECT over its scope; `tablequery` does
so for queries over tables alone. `rows` and `tablerows` give FROM, JOIN and WHERE as operators of `planner.graph`.

Expressions are trees of `planner.sql.dialect.exp`. In a bound expression every column reads `input.c` (the stream) or
`t1.c` (the first table), whatever the query calls them, and the group's window is one canonical `window(...)` call.
"""
