"""Decides what a client that speaks Spark Connect may ask for, by a list over the fields of the protocol's messages.

    a message --parts (contract/client_plans.py)--> PlanPart, PlanPart, ... --refusal (verdicts)--> allowed, or why not

What is not in the tables of `allowed` is refused, so a field that a later Spark adds stays out until a person has put
it in.
"""
