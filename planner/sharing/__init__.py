"""Sharing between queries: what is the same, what is part of what, and where that saves WAN bytes; docs/sharing.md."""
