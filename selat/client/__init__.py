"""The client of a master: what `selat.connect` returns, the queries and producers that it makes, and their values.

It must not print: `selat.cli` does.
"""

from selat.client.client import Client, Outcome, connect
from selat.client.push import Producer
from selat.client.query import Query, Watch
from selat.client.results import Results

__all__ = ["Client", "Outcome", "Producer", "Query", "Results", "Watch", "connect"]
