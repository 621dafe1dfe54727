"""Sites as they were last heard, and the connections to them. The room knows no query."""
