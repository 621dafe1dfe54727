"""What sites are to run: assignments computed from all queries, versioned, and handed out.

Reports come in here, and the moves of queries that they call for.
"""
