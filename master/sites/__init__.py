"""Sites as they last reported, and the connections to them. The room knows no query."""
