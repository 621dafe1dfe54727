"""A task takes another one's place while their query runs: docs/handover.md has the protocol.

`predecessor` is what the old task does, `seed` the checkpoint that it sends, `control` how the new one follows the old
one's channel, `shadow` the new task until it has taken over, `successor` all of its life.
"""
