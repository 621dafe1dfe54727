"""Batch jobs over shards at many sites: how long a task takes where, which slot it takes, which job goes first. Pure.

model      shards, tasks, jobs, slots as a scheduler sees them
seen       how a slot looks to one framework: when it can have it, and who is before it
estimate   how long a task needs a slot: the lease to ask for, and the history behind it
sent       how much of a split a link has to carry
placing    tasks to slots: aware of leases, first come first served, at the site of the input, random
locality   jobs with few local tasks are skipped for a while
deciding   one turn of a scheduler, of all of these
life       phases of a task, and where the last one of a query runs
"""

from planner.batch.deciding import Job, Rule, Turn, decide, placing, placing_by_job
from planner.batch.estimate import EstimateSettings, TaskHistory, accuracy, lease_estimate_s, run_time_s, transfer_s
from planner.batch.life import TASK_MOVES, TaskEvent, TaskPhase, next_phase, reduce_site
from planner.batch.locality import SkipRule, Skips, is_local, locality, may_start
from planner.batch.model import Assigned, Placement, Shard, SlotView, Task, Waits
from planner.batch.placing import RunTime, first_come, lease_aware, local, random_slots
from planner.batch.seen import slot_view
from planner.batch.sent import SentShares
from planner.graph.batchoptions import BatchOptions, Policy

__all__ = [
    "TASK_MOVES",
    "Assigned",
    "BatchOptions",
    "EstimateSettings",
    "Job",
    "Placement",
    "Policy",
    "Rule",
    "RunTime",
    "SentShares",
    "Shard",
    "SkipRule",
    "Skips",
    "SlotView",
    "Task",
    "TaskEvent",
    "TaskHistory",
    "TaskPhase",
    "Turn",
    "Waits",
    "accuracy",
    "decide",
    "first_come",
    "is_local",
    "lease_aware",
    "lease_estimate_s",
    "local",
    "locality",
    "may_start",
    "next_phase",
    "placing",
    "placing_by_job",
    "random_slots",
    "reduce_site",
    "run_time_s",
    "slot_view",
    "transfer_s",
]
