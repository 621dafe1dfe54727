"""Messages of the services from values, and back."""
