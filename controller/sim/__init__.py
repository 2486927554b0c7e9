"""Deterministic simulation from a seed: the real step, the real agent cores and real rounds on simulated brokers.

In: a scenario and a seed. Out: figures, or InvariantBroken. Imports `agent` and everything below it; no clock, no I/O.
"""
