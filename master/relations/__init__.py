"""The catalog: streams, tables, views, sinks and functions."""
