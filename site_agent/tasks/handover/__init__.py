"""A task takes another one's place while their query runs: docs/handover.md has the protocol.

ending       ends the old task's channel in favour of the new one's
predecessor  is what an old merge does, `seed` the checkpoint that it sends
control      follows the old task's channel for the new one
shadow       is a merge until it has taken over, `derived` a derived task
beginning    begins the new task's channel
successor    is all of the new task's life
"""
