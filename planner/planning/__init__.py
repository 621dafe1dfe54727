"""From a parsed query to a plan: the planner's one entry point.

    Planning.of --questions, answers of Spark--> result: a DraftPlan with types
    --place, place_combining, place_batch--> PhysicalPlan

It knows no sites that answer and no store: whoever drives it has Spark answer, and gives the answers back.
"""

from __future__ import annotations

from planner.place.batch import place_batch
from planner.place.placement import place
from planner.planning.combining import Combined, place_combining
from planner.planning.drafts import draft_query
from planner.planning.machine import Answer, Part, Planning, Question, Refusal, planned_with

__all__ = [
    "Answer",
    "Combined",
    "Part",
    "Planning",
    "Question",
    "Refusal",
    "draft_query",
    "place",
    "place_batch",
    "place_combining",
    "planned_with",
]
