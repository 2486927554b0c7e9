"""Adapters for cases of Pulsar's extensible load manager."""
