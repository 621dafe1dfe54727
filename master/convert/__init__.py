"""Between messages and our values. Messages go no further than here and `services`."""
