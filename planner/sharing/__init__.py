"""Sharing between queries: which work is equal or part of other work, and what that saves; docs/sharing.md."""
