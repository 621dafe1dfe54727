"""Queries as people see them: a record, with what is known of the query at this moment."""
