"""Strategies that are Pulsar's: its shedders in its own round cycles, with Pulsar's placement."""
