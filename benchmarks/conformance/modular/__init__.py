"""Adapters for cases of Pulsar's modular load manager."""
