"""The connection to a master: its channel and stubs, tokens, failed calls as errors, and how long to try again.

It must not know what the messages say: `selat.convert` does.
"""
