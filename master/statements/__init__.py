"""Statements of SQL, each run: DDL, SET, SHOW, EXPLAIN, grants, and queries handed on."""
