"""Batch jobs of three frameworks that share slots by lease, by offer, or directly: the evaluation of Awan.

world      nodes, bandwidths and jobs, drawn from a seed
models     what a framework sees of the slots, and how it gets them: lease, offer, direct
framework  a framework: its queue, its scheduler, its tasks
run        one run: a world, frameworks, a model; what came of every task and job
figures    the runs behind each figure, and what they show
"""
