"""One task takes another one's place while its query runs: steps, what each waits for, and who may move where.

The protocol is that of docs/handover.md. The master stores a step before any site hears of it; here is what each step
waits for, and what follows.

model      places, generations of tasks, and the handover under way
steps      the state machine: one table of moves, and the event that follows from what sites report
refusals   why a task cannot be moved
"""
