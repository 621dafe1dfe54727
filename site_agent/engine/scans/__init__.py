"""From scans to Spark DataFrames: whole files and parts of them, CSV records, row groups, malformed rows.

It knows files and their formats, and neither tasks nor connectors.
"""
