"""Deciding: a round's inputs in, a plan with evidence out. Pure: domain, `pulsar` and numpy only.

`view` (what a round sees) → `placement` and `limits` (what it may do) → `strategies` → `plan` → `round`.
"""
