"""A framework of one's own: takes slots by lease, keeps them, gives them back, and works in them. See docs/leases.md.

It must not know of queries.
"""

from selat.framework.framework import Framework, SlotWatch
from selat.framework.occupancy import Occupancy, WorkEvent, WorkState

__all__ = ["Framework", "Occupancy", "SlotWatch", "WorkEvent", "WorkState"]
