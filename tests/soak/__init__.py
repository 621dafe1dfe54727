"""Random faults against running queries, for as long as asked: `make soak MINUTES=60 SEED=1 TABLE=soak.md`.

round: submit the oracle's queries -> kill, freeze, cut links -> wait for the end -> compare with DuckDB
"""
