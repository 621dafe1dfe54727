"""Converts values to messages of the services, and back."""
