"""Deciding: a round's inputs in, a plan with evidence out. Pure: domain, `pulsar` and numpy only.

`view` (what a round sees) → `placement` (where bundles may be) → `overrides`, `split`, `pacing` (what it may do
besides) → `strategies` → `plan` → `round`. `decisions` and `what_if` are shared by strategies and overrides.
"""
