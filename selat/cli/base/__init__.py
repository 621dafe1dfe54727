"""What every command works with: settings, terminal and client, errors as exit codes, commands loaded when used.

It must not know any command.
"""
