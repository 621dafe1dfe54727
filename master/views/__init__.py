"""Queries as people see them: a record with what is known of it at this moment."""
