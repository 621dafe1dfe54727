"""What `selat dev` and `selat wan` both need: processes, topology files, JSON files, errors.

It must not know of clusters or emulated networks, which are above it.
"""
