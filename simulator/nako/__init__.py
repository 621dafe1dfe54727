"""Nako: which of several queries behind a slow link are moved, beside every choice there is."""
