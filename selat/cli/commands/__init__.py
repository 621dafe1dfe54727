"""The commands that talk to a master, a module for each group.

A command must not import another: what two need is in a module of its own, such as `statements` and `follow`.
"""
