"""From syntax and relations to the logical plan: SELECTs whose names are bound, without stages or sites.

    syntax --compose: derived, streamselect, unions, layers--> StreamSelect, one for each branch of a UNION ALL
           --tablequery-->                                     TableSelect, or a UNION ALL of them

`selects` has these values; `clauses` binds what all of them have. `compose` binds queries over queries from the inside
out. `rows` and `tablerows` write FROM, JOIN and WHERE as operators of `planner.graph`.

Expressions are trees of `planner.sql.dialect.exp`. In a bound expression every column reads `input.c` (the stream) or
`t1.c` (the first table), whatever the query calls them, and the group's window is one canonical `window(...)` call.
"""
