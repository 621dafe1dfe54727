"""The catalog: streams, tables, views, sinks and functions. It is told who reads them, and asks nobody."""
