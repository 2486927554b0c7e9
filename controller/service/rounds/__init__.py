"""Rounds beside the batches: when one is due, the worker process that computes it, its supervision."""
