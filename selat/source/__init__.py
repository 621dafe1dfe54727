"""Text that the client reads before it sends it: where statements end, and which functions a Python file has.

It must not judge SQL, which is the master's work, nor run the file.
"""
