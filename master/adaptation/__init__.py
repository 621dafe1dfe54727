"""Adaptation of running queries: reports become a picture, `planner.adapt` decides on it, a journal keeps that.

    reports -> sightings -+
    what runs -> graphs  -+-> advisor -> planner.adapt.decide -> journal -> selat adapt explain

Nothing here changes what runs: decisions are advice.
"""
