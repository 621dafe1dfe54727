"""Which groups of open windows leave their site early, so that little is left to send when a window closes."""
