"""Every decision of Selat, pure: frozen values in, a decision with its reason out.

    text --sql--> statement --query--> stages (DraftPlan) --placement--> PhysicalPlan --explain--> text

Nothing here reads a clock, draws a random number, opens a file or a socket; what a function needs is an argument.
Words: docs/glossary.md.
"""
