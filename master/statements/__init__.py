"""Runs statements of SQL: DDL, SET, SHOW, EXPLAIN, grants, and queries, which it hands on."""
