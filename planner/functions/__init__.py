"""What the planner knows of Spark's functions: which may be called, of which kind each is, and how aggregates split.

traits       which function is an aggregate, which ranks rows, which gives another value every time
table        the functions that a query may call, and those that it may not, with the reason
aggregates   what sources compute of an aggregate, how that is merged, and the last step
sketches     sizes of sketches, from the error that a query asks for

To add an aggregate is to add an entry to `aggregates`.
"""
