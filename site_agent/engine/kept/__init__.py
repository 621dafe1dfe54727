"""Plans that are made once and run for each epoch; docs/decisions/0045-kept-plans.md.

A task runs the same statement in each epoch, over other rows. Here Spark plans it once, over leaves that read Arrow
files at fixed paths (slots), and that plan is run again in the calling thread, without a Spark job.

    inputs --> rows in memory, if an epoch is small enough      java/SlotSource   the leaf
    admission  late rows are taken out before Spark sees them   java/KeptPlan     the runner
    plans      a task's plans, and one epoch through them       java/Changing     the watermark in a plan

What cannot be kept is planned anew in each epoch (`site_agent.engine.spark`).
"""
