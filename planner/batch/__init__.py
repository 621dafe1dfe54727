"""Batch jobs over shards at many sites: how long a task takes where, which slot it takes, which job goes first. Pure.

model      shards, tasks, jobs, slots as a scheduler sees them
estimate   how long a task needs a slot: the lease to ask for, and the history behind it
placing    tasks to slots: aware of leases, first come first served, random
locality   jobs with few local tasks are skipped for a while
"""

from planner.batch.estimate import EstimateSettings, TaskHistory, accuracy, lease_estimate_s, run_time_s, transfer_s
from planner.batch.locality import SkipRule, Skips, is_local, locality, may_start
from planner.batch.model import Assigned, Placement, Shard, SlotView, Task, Waits
from planner.batch.placing import RunTime, first_come, lease_aware, random_slots

__all__ = [
    "Assigned",
    "EstimateSettings",
    "Placement",
    "RunTime",
    "Shard",
    "SkipRule",
    "Skips",
    "SlotView",
    "Task",
    "TaskHistory",
    "Waits",
    "accuracy",
    "first_come",
    "is_local",
    "lease_aware",
    "lease_estimate_s",
    "locality",
    "may_start",
    "random_slots",
    "run_time_s",
    "transfer_s",
]
