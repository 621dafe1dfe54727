"""How commands print: rows in each format, lists of objects, text for people, plots, and the progress of a query.

It must not know which command prints.
"""
