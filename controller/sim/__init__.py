"""Deterministic simulation from a seed: the real step, the real agents' cores, real rounds on simulated brokers."""
